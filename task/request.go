package task

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// override is what a follow-up may change of the agent, for one turn.
type override struct {
	Model        string               `json:"model"`
	SystemPrompt string               `json:"systemPrompt"`
	ModelParams  *session.ModelParams `json:"modelParams"`
}

const overrideKey = "agentConfigOverride"

// overriding returns what the newest message of a user asks for, as long as
// nobody answered it.
func overriding(s session.Session) override {
	var o override
	for i := s.Len() - 1; i >= 0; i-- {
		m := s.Message(i)
		if m.Role == session.RoleAssistant {
			break
		}
		if raw, ok := m.Metadata[overrideKey]; ok && json.Unmarshal(raw, &o) == nil {
			break
		}
	}
	return o
}

// request shows the model the tools that are offered and the reminder that is
// due, and leaves out answers without a word.
func (w *work) request(s session.Session, q *llm.Request) {
	state := stateOf(s)
	q.Inference = state.Loop.LifetimeTurns
	if o := overriding(s); o.ModelParams != nil {
		q.Params = *o.ModelParams
	}
	deferred := slices.ContainsFunc(q.Tools, func(t llm.Tool) bool { return w.r.specOf(t.Name).Deferred })
	q.Tools = slices.DeleteFunc(q.Tools, func(t llm.Tool) bool { return !w.r.offers(s, w.r.specOf(t.Name), deferred) })
	blank := func(m session.Message) bool {
		return m.Role == session.RoleAssistant && len(m.ToolCalls) == 0 && m.Content.Blank()
	}
	if slices.ContainsFunc(q.Messages, blank) {
		q.Messages = session.Sendable(slices.DeleteFunc(slices.Clone(q.Messages), blank))
	}
	if c := state.Checklist; c.ReminderArmed && c.NudgeReason != nil {
		q.Messages = append(slices.Clip(q.Messages), session.Message{
			ID: "checklist-reminder", Role: session.RoleUser, CreatedAt: w.r.x.c.Clock(), Content: session.Text(reminderText + *c.NudgeReason),
		})
	}
	w.asked = *q
}

// modeNote says what the execution mode means.
func modeNote(mode string) string {
	switch mode {
	case "plan":
		return modePlanText
	case "analyze":
		return modeAnalyzeText
	case "verified":
		return modeVerifiedText
	case "debug":
		return modeDebugText
	case "chat":
		return modeChatText
	}
	return modeExecuteText
}

// ask asks a model outside the loop: for a plan, a text or a summary. The turn
// is counted.
func (r *Run) ask(ctx context.Context, model llm.Model, q llm.Request) (llm.Response, error) {
	s := r.session()
	q.Agent, q.SessionID, q.Inference = s.Info().AgentName, s.ID(), r.state().Loop.LifetimeTurns
	var unwritten error
	c := agent.Config{Retries: providerRetries, Backoff: backoff, MaxPause: patience, Notify: func(n agent.Notice) {
		if unwritten == nil {
			unwritten = r.append(ctx, edit{changes: []session.Change{attemptEvent(n)}})
		}
	}}
	response, err := c.Ask(ctx, model, q)
	switch {
	case unwritten != nil:
		return response, unwritten
	case err != nil && ctx.Err() != nil:
		return response, context.Cause(ctx)
	case err != nil:
		return response, &providerError{err}
	}
	response.Cost = llm.CostOf(model, response)
	if response.Model == "" {
		response.Model = q.Model
	}
	return response, nil
}

// providerError is a request that failed for good.
type providerError struct{ error }

func (e *providerError) Unwrap() error { return e.error }
