package workflow

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// A summary is a unit named after the last unit it covers. It replaces the
// beginning of what an agent remembers, for every unit that remembers this
// beginning; the log stays as it is.
const summaryPrefix = "summary/"

func isSummary(key string) bool { return strings.HasPrefix(key, summaryPrefix) }

// compact has the oldest of what an agent remembers summarised before a unit
// of its own, where it has become too long.
func (x *runner) compact(ctx context.Context, r *run, u unit) error {
	c := r.spec.Context
	if c == nil || c.Compaction == nil || !c.Compaction.Enabled || len(u.earlier) == 0 || r.summarisedFor(u) {
		return nil
	}
	made, _ := r.spec.Agents.Get(u.agent)
	made.ModelID = cmp.Or(c.Compaction.SummarizationModel, made.ModelID)
	name, model, err := x.model(r, made)
	if err != nil {
		return err
	}
	if upTo, _ := r.tooLong(u, *c.Compaction, model); upTo == "" {
		return nil
	}
	x.compacting.Lock()
	defer x.compacting.Unlock()
	if err := x.stopped(ctx, r); err != nil {
		return err
	}
	upTo, old := r.tooLong(u, *c.Compaction, model) // another unit may have done it meanwhile
	if upTo == "" {
		return nil
	}
	of := unit{key: summaryPrefix + upTo, agent: u.agent, lane: u.lane}
	return x.summarise(ctx, r, of, old, result{From: u.earlier[0], UpTo: upTo, For: u.key}, exchange{name: name, model: model, input: memory.SummaryQuestion, silent: true})
}

// summarisedFor reports that a summary was made before a unit. It has one at
// most: when it is begun again, it remembers what it did the first time.
func (r *run) summarisedFor(u unit) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(u.earlier, func(key string) bool {
		e := r.index.units[summaryPrefix+key]
		return e != nil && e.done && e.result.For == u.key
	})
}

// tooLong finds what is to be summarised: the oldest units of what the agent
// remembers, up to the ratio, never the messages to be preserved. An empty name
// says that there is nothing.
func (r *run) tooLong(u unit, c spec.Compaction, model llm.Model) (upTo string, old []session.Message) {
	all := r.remembered(u)
	r.mu.Lock()
	defer r.mu.Unlock()
	if (memory.With{Count: memory.CountBy(model)}).Measure(model, llm.Request{Messages: all}).Messages < c.WhenTokensOver {
		return "", nil
	}
	most := min(int(c.SummaryRatio*float64(len(all))), len(all)-c.PreserveRecentMessages)
	covered, summary := r.summaryOf(u)
	if summary != nil {
		old = append(old, *summary)
	}
	for _, unit := range u.earlier[covered:] { // whole exchanges only: a call and its result stay together
		said := r.index.units[unit]
		if said == nil || len(old)+len(said.messages) > most {
			break
		}
		old, upTo = append(old, said.messages...), unit
	}
	return upTo, old
}

// summaryOf finds the longest summary of what a unit remembers: how many units
// it covers, and the message that replaces them.
func (r *run) summaryOf(u unit) (covers int, summary *session.Message) {
	for i := len(u.earlier) - 1; i >= 0; i-- {
		e := r.index.units[summaryPrefix+u.earlier[i]]
		if e != nil && e.done && e.result.From == u.earlier[0] {
			return i + 1, &session.Message{ID: e.key, Role: session.RoleUser, Content: session.Text(summarisedText(e.response()))}
		}
	}
	return 0, nil
}

// summarise asks for the summary, unless that was done before, and commits it.
func (x *runner) summarise(ctx context.Context, r *run, u unit, old []session.Message, covers result, with exchange) error {
	e, begun := r.begun(u.key)
	if !begun {
		err := x.append(ctx, r, u.key, session.UnitStarted{Unit: u.key, Lane: u.lane, Agent: u.agent}, u.message(memory.SummaryQuestion))
		if err != nil {
			return err
		}
	}
	s, err := x.unitSession(r, u, e, old, session.Definition{Name: DefinitionName(u.agent), ModelParams: &session.ModelParams{Temperature: ptr(0.3)}})
	if err != nil {
		return err
	}
	if s, err = x.converse(ctx, r, u, s, with); err != nil {
		return err
	}
	covers.Tokens = countWords(memory.SummaryQuestion, s.Reply())
	// No agent: it is none of the steps that a budget counts.
	return x.commit(ctx, r, u.key, "workflow.unit", StatusRunning, "", session.UnitFinished{Unit: u.key, Result: covers.json(), Seconds: x.seconds()})
}
