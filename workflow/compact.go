package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// A summary is a unit named after the last unit it covers. It stands for the
// beginning of what an agent remembers, for every unit that remembers this
// beginning; the log stays as it is.
const summaryPrefix = "summary/"

func isSummary(key string) bool { return strings.HasPrefix(key, summaryPrefix) }

// summaryOf is the longest summary of what a unit remembers: how many units it
// covers, and the message that stands for them.
func (r *run) summaryOf(u unit) (covers int, summary *session.Message) {
	for i := len(u.earlier) - 1; i >= 0; i-- {
		e := r.book.units[summaryPrefix+u.earlier[i]]
		if e != nil && e.done && e.result.From == u.earlier[0] {
			return i + 1, &session.Message{ID: e.key, Role: session.RoleUser, Content: session.Text(summarisedText(e.response()))}
		}
	}
	return 0, nil
}

// summarisedFor reports that a summary was made before a unit. It has one at
// most: when it is begun again, it remembers what it did the first time.
func (r *run) summarisedFor(u unit) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(u.earlier, func(key string) bool {
		e := r.book.units[summaryPrefix+key]
		return e != nil && e.done && e.result.For == u.key
	})
}

// compact has the oldest of what an agent remembers summarised before a unit
// of its own, where it has become too long.
func (st *stage) compact(ctx context.Context, r *run, u unit) error {
	c := r.spec.Context
	if c == nil || c.Compaction == nil || !c.Compaction.Enabled || len(u.earlier) == 0 || r.summarisedFor(u) {
		return nil
	}
	made, _ := r.spec.Agents.Get(u.agent)
	name, model, err := st.summariser(r, made, c.Compaction)
	if err != nil {
		return err
	}
	if upTo, _ := tooLong(r, u, *c.Compaction, model); upTo == "" {
		return nil
	}
	st.compacting.Lock()
	defer st.compacting.Unlock()
	if err := st.stopped(ctx, r); err != nil {
		return err
	}
	upTo, old := tooLong(r, u, *c.Compaction, model) // another unit may have seen to it meanwhile
	if upTo == "" {
		return nil
	}
	of := unit{key: summaryPrefix + upTo, agent: u.agent, lane: u.lane}
	e, err := st.beginSummary(ctx, r, of)
	if err != nil {
		return err
	}
	s, err := st.loop(r, of, session.Definition{
		Name: DefinitionName(u.agent), ModelParams: &session.ModelParams{Temperature: ptr(0.3)},
	}, old, e)
	if err != nil {
		return err
	}
	return st.summarise(ctx, r, of, result{From: u.earlier[0], UpTo: upTo, For: u.key}, s, talk{name: name, model: model, input: summaryText, silent: true})
}

// beginSummary writes down that a summary is asked for, unless that was
// written before.
func (st *stage) beginSummary(ctx context.Context, r *run, u unit) (*entry, error) {
	r.mu.Lock()
	e := r.book.unit(u.key)
	_, asked := e.input()
	r.mu.Unlock()
	if asked {
		return e, nil
	}
	return e, st.append(ctx, r, u.key, session.UnitStarted{Unit: u.key, Lane: u.lane, Agent: u.agent}, session.MessageAdded{Message: session.Message{
		ID: uuid.NewString(), Role: session.RoleUser, Unit: u.key, Lane: u.lane, ExecutionID: u.key, Content: session.Text(summaryText),
	}})
}

// summariser is the model that writes summaries.
func (st *stage) summariser(r *run, made spec.Agent, c *spec.Compaction) (string, llm.Model, error) {
	if c.SummarizationModel != "" {
		made.ModelID = c.SummarizationModel
	}
	return st.model(r, made)
}

// tooLong finds what is to be summarised: the oldest units of what the agent
// remembers, up to the ratio, never the messages to be preserved. An empty name
// says that there is nothing.
func tooLong(r *run, u unit, c spec.Compaction, model llm.Model) (upTo string, old []session.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.remembered(u)
	tokens := 0
	for _, m := range all {
		tokens += countTokens(model, m)
	}
	if tokens < c.WhenTokensOver {
		return "", nil
	}
	most := min(int(c.SummaryRatio*float64(len(all))), len(all)-c.PreserveRecentMessages)
	covered, summary := r.summaryOf(u)
	if summary != nil {
		old = append(old, *summary)
	}
	for _, unit := range u.earlier[covered:] { // whole exchanges only: a call and its result stay together
		said := r.book.units[unit]
		if said == nil || len(old)+len(said.messages) > most {
			break
		}
		old, upTo = append(old, said.messages...), unit
	}
	return upTo, old
}

// countTokens is how many tokens a message has: counted where the model can,
// else about four letters each.
func countTokens(model llm.Model, m session.Message) int {
	if counter, ok := model.(llm.TokenCounter); ok {
		if n, name := counter.CountTokens(m); name != "" {
			return n
		}
	}
	n := len(m.Content.Text())
	for _, call := range m.ToolCalls {
		n += len(call.Name) + len(call.Arguments)
	}
	if m.ToolResult != nil {
		n += len(m.ToolResult.Content)
	}
	return n/4 + 4
}

// summarise asks for the summary and commits it.
func (st *stage) summarise(ctx context.Context, r *run, u unit, covered result, s session.Session, t talk) error {
	s, err := st.talk(ctx, r, u, s, t)
	if err != nil {
		return err
	}
	covered.Tokens = words(summaryText, s.Reply())
	raw, err := json.Marshal(covered)
	if err != nil {
		return fmt.Errorf("write the result of %s: %w", u.key, err)
	}
	// No agent: it is none of the steps that a budget counts.
	return st.commit(ctx, r, u.key, "workflow.unit", StatusRunning, "", session.UnitFinished{Unit: u.key, Result: raw, Seconds: st.seconds()})
}
