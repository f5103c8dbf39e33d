package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// compact has the oldest of what an agent remembers summarised, where it has
// become too long. The summary is a unit; it moves the window of this
// conversation and leaves the log as it is.
func (st *stage) compact(ctx context.Context, r *run, u unit) error {
	c := r.spec.Context
	if c == nil || c.Compaction == nil || !c.Compaction.Enabled || len(u.earlier) == 0 {
		return nil
	}
	made, _ := r.spec.Agents.Get(u.agent)
	name, model, err := st.summariser(r, made, c.Compaction)
	if err != nil {
		return err
	}
	key, upTo, old, ok := st.tooLong(r, u, *c.Compaction, model)
	if !ok {
		return nil
	}
	temperature := 0.3
	s, err := session.New(session.Birth{ID: r.id, AgentID: u.agent}, session.Definition{
		Name: definitionName(u.agent), ModelParams: &session.ModelParams{Temperature: &temperature},
	}, session.Seed{}, st.host.Now())
	if err != nil {
		return err
	}
	ask := session.Message{ID: uuid.NewString(), Role: session.RoleUser, Unit: key, Lane: u.lane, Content: session.Text(summaryText)}
	for _, m := range append(old, ask) {
		if s, err = s.WithMessage(m, st.host.Now()); err != nil {
			return err
		}
	}
	if s, err = s.With(st.host.Now(), session.ExecutionStarted{ExecutionID: key}); err != nil {
		return err
	}
	of := unit{key: key, agent: u.agent, lane: u.lane}
	if err := st.append(ctx, r, key, session.UnitStarted{Unit: key, Lane: u.lane, Agent: u.agent}, session.MessageAdded{Message: ask}); err != nil {
		return err
	}
	return st.summarise(ctx, r, of, upTo, name, model, s.Sealed(st.host.Now()))
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
func (st *stage) tooLong(r *run, u unit, c spec.Compaction, model llm.Model) (key, upTo string, old []session.Message, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.remembered(u)
	tokens := 0
	for _, m := range all {
		tokens += countTokens(model, m)
	}
	if tokens < c.WhenTokensOver {
		return "", "", nil, false
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
	n := 0
	for e := r.book.units[summaryKey(u.agent, u.lane, n)]; e != nil && e.done; e = r.book.units[summaryKey(u.agent, u.lane, n)] {
		n++
	}
	return summaryKey(u.agent, u.lane, n), upTo, old, upTo != ""
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
	retry := r.spec.Runtime.FailurePolicy.Retry()
	j := &journal{st: st, r: r, u: u}
	s, err := agent.Run(ctx, agent.Config{
		Journal: j, Now: st.host.Now, NewID: uuid.NewString, Retries: retry.Retries,
		Model: func(session.Session) (string, llm.Model, error) {
			return name, &watched{Model: model, st: st, r: r, retry: retry, input: summaryText, estimated: &j.estimated}, nil
		},
		Tools: func(context.Context, session.Session) (tool.Set, error) { return tool.Set{}, nil },
	}, s)
	if err != nil {
		var stored *CommitError
		if errors.As(err, &stored) {
			return err
		}
		return failure(err)
	}
	raw, err := json.Marshal(result{Tokens: words(summaryText, s.Reply()), UpTo: upTo})
	if err != nil {
		return fmt.Errorf("write the result of %s: %w", u.key, err)
	}
	return st.commit(ctx, r, u.key, "workflow.unit", StatusRunning, "",
		session.UnitFinished{Unit: u.key, Agent: u.agent, Result: raw, Seconds: st.seconds()})
}
