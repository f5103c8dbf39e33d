package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Papers is what a run is made of besides its State: the spec in force with
// its files, and what the agents said and heard.
type Papers struct {
	Spec     *spec.Spec
	Snapshot *spec.Snapshot
	Talks    []Talk
}

// Read is the papers of a run. The talks are in the order of the spec, each
// with the units of its agent in the order in which the agent remembers them;
// units that are not done stand at the end. The session must be whole, as for
// Project.
func Read(s session.Session) (*Papers, error) {
	if s.Workflow() == nil || s.Partial() {
		return nil, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is no workflow run, or was not read whole", s.ID())}
	}
	b, err := bookOf(s)
	if err != nil {
		return nil, err
	}
	r, err := newRun(s.ID(), b)
	if err != nil {
		return nil, err
	}
	_, _, _ = r.replay(context.Background()) // how far it comes does not matter
	papers := &Papers{Spec: r.spec, Snapshot: r.snap}
	for _, e := range r.inOrder() {
		if e.agent == "" || len(e.messages) == 0 || isSummary(e.key) {
			continue
		}
		papers.talk(r, e.agent, e.lane).add(e)
	}
	for i := range papers.Talks {
		papers.Talks[i].shorten(r)
	}
	return papers, nil
}

// inOrder are the units as the program came to them, then those it did not.
func (r *run) inOrder() []*entry {
	var list []*entry
	seen := map[string]bool{}
	take := func(key string) {
		if e := r.book.units[key]; e != nil && !seen[key] {
			seen[key] = true
			list = append(list, e)
		}
	}
	for _, t := range slices.Concat(r.trail, r.reached) {
		take(t.unit)
	}
	var rest []*entry
	for _, e := range r.book.units {
		if !seen[e.key] && len(e.messages) > 0 {
			rest = append(rest, e)
		}
	}
	slices.SortFunc(rest, func(a, b *entry) int { return int(a.messages[0].Seq - b.messages[0].Seq) })
	return append(list, rest...)
}

func (p *Papers) talk(r *run, agent, lane string) *Talk {
	for i := range p.Talks {
		if p.Talks[i].Agent == agent && p.Talks[i].Lane == lane {
			return &p.Talks[i]
		}
	}
	p.Talks = append(p.Talks, Talk{Agent: agent, Lane: lane, System: r.book.systems[conversation(agent, lane)]})
	return &p.Talks[len(p.Talks)-1]
}

func (t *Talk) add(e *entry) { t.Messages = append(t.Messages, e.messages...) }

// shorten takes the summary that covers most of the talk from its beginning.
func (t *Talk) shorten(r *run) {
	for i, m := range t.Messages {
		e := r.book.units[summaryPrefix+m.Unit]
		if e != nil && e.done && e.result.From == t.Messages[0].Unit {
			t.Removed, t.Summary = i+1, e.response()
		}
	}
}
