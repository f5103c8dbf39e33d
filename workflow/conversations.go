package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Contents is what a run has besides its State: the spec in force with its
// files, and the conversations of its agents.
type Contents struct {
	Spec          *spec.Spec
	Snapshot      *spec.Snapshot
	Conversations []Conversation
}

// Conversation is what an agent said and heard in one lane, in order. Messages
// name their unit where that is known.
type Conversation struct {
	Agent, Lane string
	System      string // the agent's prompt; empty: not known
	Messages    []session.Message
	Removed     int    // how many of the first messages the agent is not shown any more
	Summary     string // what it is shown in their place
}

// ReadContents reads a run. The units of a conversation are in the order in
// which the agent remembers them; those that are not done come last. The
// session must be whole, as for Project.
func ReadContents(s session.Session) (*Contents, error) {
	if s.Workflow() == nil || s.Partial() {
		return nil, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is no workflow run, or was not read whole", s.ID())}
	}
	r, err := readRun(s)
	if err != nil {
		return nil, err
	}
	_, _, _ = r.replay(context.Background()) // how far it comes does not matter
	found := &Contents{Spec: r.spec, Snapshot: r.snap}
	for _, e := range r.inOrder() {
		if e.agent != "" && len(e.messages) > 0 && !isSummary(e.key) {
			c := found.conversation(r, e.agent, e.lane)
			c.Messages = append(c.Messages, e.messages...)
		}
	}
	for i := range found.Conversations {
		found.Conversations[i].summarise(r)
	}
	return found, nil
}

// inOrder returns the units that the program reached in its order, then the
// others.
func (r *run) inOrder() []*entry {
	var list []*entry
	seen := map[string]bool{}
	for _, t := range slices.Concat(r.finished, r.started) {
		if e := r.index.units[t.unit]; e != nil && !seen[t.unit] {
			seen[t.unit] = true
			list = append(list, e)
		}
	}
	var rest []*entry
	for _, e := range r.index.units {
		if !seen[e.key] && len(e.messages) > 0 {
			rest = append(rest, e)
		}
	}
	slices.SortFunc(rest, func(a, b *entry) int { return int(a.messages[0].Seq - b.messages[0].Seq) })
	return append(list, rest...)
}

func (found *Contents) conversation(r *run, agent, lane string) *Conversation {
	for i := range found.Conversations {
		if c := &found.Conversations[i]; c.Agent == agent && c.Lane == lane {
			return c
		}
	}
	found.Conversations = append(found.Conversations, Conversation{Agent: agent, Lane: lane, System: r.index.systems[conversation(agent, lane)]})
	return &found.Conversations[len(found.Conversations)-1]
}

// summarise takes the summary that covers most of the conversation from its
// beginning.
func (c *Conversation) summarise(r *run) {
	for i, m := range c.Messages {
		e := r.index.units[summaryPrefix+m.Unit]
		if e != nil && e.done && e.result.From == c.Messages[0].Unit {
			c.Removed, c.Summary = i+1, e.response()
		}
	}
}
