package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// compact has the oldest of what an agent remembers summarised before a unit
// of its own, where it has become too long. The summary is a unit; it moves
// the window of this conversation and leaves the log as it is.
func (st *stage) compact(ctx context.Context, r *run, u unit) error {
	c := r.spec.Context
	if c == nil || c.Compaction == nil || !c.Compaction.Enabled || len(u.earlier) == 0 {
		return nil
	}
	of := unit{key: summaryKey(u.key), agent: u.agent, lane: u.lane}
	if _, done := r.done(of.key); done {
		return nil
	}
	made, _ := r.spec.Agents.Get(u.agent)
	name, model, err := st.summariser(r, made, c.Compaction)
	if err != nil {
		return err
	}
	upTo, old, ok := st.tooLong(r, u, *c.Compaction, model)
	if !ok {
		return nil
	}
	e, err := st.beginSummary(ctx, r, of)
	if err != nil {
		return err
	}
	s, err := st.loop(r, of, session.Definition{
		Name: definitionName(u.agent), ModelParams: &session.ModelParams{Temperature: ptr(0.3)},
	}, old, e)
	if err != nil {
		return err
	}
	return st.summarise(ctx, r, of, upTo, name, model, s)
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

// summaryKey is the unit that sums up what a unit's agent remembers. Units
// that work at the same time have summaries of their own.
func summaryKey(unit string) string { return "summary/" + unit }

// summaryOf is the summary that covers most of the units that a unit
// remembers: how many of them, and the message that stands for them.
func (r *run) summaryOf(u unit) (skip int, summary *session.Message) {
	for _, key := range append(u.earlier[:len(u.earlier):len(u.earlier)], u.key) {
		e := r.book.units[summaryKey(key)]
		if e == nil || !e.done {
			continue
		}
		if i := slices.Index(u.earlier, e.result.UpTo); i >= skip {
			skip = i + 1
			summary = &session.Message{ID: e.key, Role: session.RoleUser, Content: session.Text(summarisedText(e.response()))}
		}
	}
	return skip, summary
}

// summariser is the model that writes summaries.
func (st *stage) summariser(r *run, made spec.Agent, c *spec.Compaction) (string, llm.Model, error) {
	if c.SummarizationModel != "" {
		made.ModelID = c.SummarizationModel
	}
	return st.model(r, made)
}

// tooLong finds what is to be summarised: the oldest units of what the agent
// remembers, up to the ratio, never the messages to be preserved.
func (st *stage) tooLong(r *run, u unit, c spec.Compaction, model llm.Model) (upTo string, old []session.Message, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.remembered(u)
	tokens := 0
	for _, m := range all {
		tokens += countTokens(model, m)
	}
	if tokens < c.WhenTokensOver {
		return "", nil, false
	}
	most := min(int(c.SummaryRatio*float64(len(all))), len(all)-c.PreserveRecentMessages)
	skip, summary := r.summaryOf(u)
	if summary != nil {
		old = append(old, *summary)
	}
	for _, unit := range u.earlier[skip:] { // whole exchanges only: a call and its result stay together
		said := r.book.units[unit]
		if said == nil || len(old)+len(said.messages) > most {
			break
		}
		old, upTo = append(old, said.messages...), unit
	}
	return upTo, old, upTo != ""
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
func (st *stage) summarise(ctx context.Context, r *run, u unit, upTo, name string, model llm.Model, s session.Session) error {
	s, err := st.talk(ctx, r, u, s, talk{name: name, model: model, input: summaryText, silent: true})
	if err != nil {
		return err
	}
	raw, err := json.Marshal(result{Tokens: words(summaryText, s.Reply()), UpTo: upTo})
	if err != nil {
		return fmt.Errorf("write the result of %s: %w", u.key, err)
	}
	return st.commit(ctx, r, u.key, "workflow.unit", StatusRunning, "",
		session.UnitFinished{Unit: u.key, Agent: u.agent, Result: raw, Seconds: st.seconds()})
}
