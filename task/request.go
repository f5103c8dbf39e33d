package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// asking is a request with the model it goes to.
type asking struct {
	name    string
	model   llm.Model
	request llm.Request
}

// override is what a follow-up may change of the agent, for one turn.
type override struct {
	Model        string               `json:"model"`
	SystemPrompt string               `json:"systemPrompt"`
	ModelParams  *session.ModelParams `json:"modelParams"`
}

const overrideKey = "agentConfigOverride"

// overriding is what the newest message of a user asks for, as long as nobody
// answered it.
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

// asking is what the model is told next, built from the session alone.
func (r *Run) asking(ctx context.Context) (asking, error) {
	s, state := r.session(), r.state()
	o := overriding(s)
	name, model, err := r.x.rt.Model(orText(o.Model, s.Model()))
	if err != nil {
		return asking{}, err
	}
	offered, err := r.offered(ctx)
	if err != nil {
		return asking{}, err
	}
	system := r.x.rt.SystemPrompt(s)
	if o.SystemPrompt != "" {
		system = o.SystemPrompt
	}
	request := llm.Request{
		Model: name, System: strings.TrimSpace(system + "\n\n" + modeNote(r.row().ExecutionMode)), Messages: transcript(s),
		Params: s.ModelParams(), ResponseFormat: s.State().ResponseFormat,
		Agent: s.Info().AgentName, SessionID: s.ID(), Inference: state.Loop.LifetimeTurns,
	}
	if o.ModelParams != nil {
		request.Params = *o.ModelParams
	}
	for _, t := range offered {
		spec := t.Spec()
		request.Tools = append(request.Tools, llm.Tool{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
	}
	if c := state.Checklist; c.ReminderArmed && c.NudgeReason != nil {
		request.Messages = append(request.Messages, session.Message{
			ID: "checklist-reminder", Role: session.RoleUser, CreatedAt: r.x.c.Clock(), Content: session.Text(reminderText + *c.NudgeReason),
		})
	}
	return asking{name: name, model: model, request: request}, nil
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

// transcript is what a model is sent of a task: the summary, if there is one,
// and the window, in a form every provider accepts. Answers without a word are
// left out.
func transcript(s session.Session) []session.Message {
	shown := slices.DeleteFunc(s.WindowMessages(), func(m session.Message) bool {
		return m.Role == session.RoleAssistant && len(m.ToolCalls) == 0 && m.Content.Blank()
	})
	if summary := s.Window().Summary; summary != nil {
		first := session.Message{
			ID: fmt.Sprintf("summary-%d-%d", summary.FromSeq, summary.ToSeq), Role: session.RoleUser, CreatedAt: summary.CreatedAt,
			Content: session.Text("Summary of the work so far:\n" + summary.Text),
		}
		shown = append([]session.Message{first}, shown...)
	}
	return session.Sendable(shown)
}

const (
	providerRetries = 5
	firstPause      = time.Second
	longestPause    = 30 * time.Second
	patience        = 5 * time.Minute // for a server that asks for time
)

// ask calls the model, again after failures that may pass.
func (r *Run) ask(ctx context.Context, a asking) (llm.Response, error) {
	for {
		response, err := infer(ctx, a)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return response, context.Cause(ctx)
		}
		attempt := a.request.Attempt + 1
		pause, again := retryPause(a.request.Attempt, err)
		if !again {
			told := event("llm_error", map[string]any{"attempt": attempt, "error": err.Error()})
			if failed := r.append(ctx, move{changes: []session.Change{told}}); failed != nil {
				return response, failed
			}
			return response, &providerError{err}
		}
		told := event("llm_retry", map[string]any{"attempt": attempt, "delayMs": pause.Milliseconds(), "error": err.Error()})
		if failed := r.append(ctx, move{changes: []session.Change{told}}); failed != nil {
			return response, failed
		}
		if err := sleep(ctx, pause); err != nil {
			return response, err
		}
		a.request.Attempt++
	}
}

// providerError is a request that failed for good.
type providerError struct{ err error }

func (e *providerError) Error() string { return e.err.Error() }
func (e *providerError) Unwrap() error { return e.err }

// infer asks once and turns a panic into an error.
func infer(ctx context.Context, a asking) (response llm.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &session.PanicError{Where: "model " + strconv.Quote(a.name), Value: v}
		}
	}()
	return a.model.Infer(ctx, a.request, nil)
}

// retryPause is how long to wait before the next attempt, false where none is
// made.
func retryPause(attempt int, err error) (time.Duration, bool) {
	var transient *llm.TransientError
	if attempt >= providerRetries || !errors.As(err, &transient) || outOfQuota(err) {
		return 0, false
	}
	if transient.After > 0 {
		return transient.After, transient.After <= patience
	}
	pause := min(firstPause<<attempt, longestPause)
	return time.Duration(float64(pause) * (0.75 + rand.Float64()/2)), true
}

// outOfQuota reports that nothing but money or a new month helps.
func outOfQuota(err error) bool {
	var provider *llm.ProviderError
	if !errors.As(err, &provider) {
		return false
	}
	if provider.Status == 402 {
		return true
	}
	code := strings.ToLower(provider.Code)
	return strings.Contains(code, "quota") || strings.Contains(code, "billing") || strings.Contains(code, "credit")
}

// tooLong reports a request that was larger than the model's context.
func tooLong(err error) bool {
	if errors.Is(err, session.ErrContextLength) {
		return true
	}
	var provider *llm.ProviderError
	if !errors.As(err, &provider) {
		return false
	}
	if provider.Status == 413 || strings.Contains(strings.ToLower(provider.Code), "context_length") {
		return true
	}
	said := strings.ToLower(provider.Message)
	return provider.Status == 400 && (strings.Contains(said, "context length") || strings.Contains(said, "context window") ||
		strings.Contains(said, "prompt is too long") || strings.Contains(said, "too many tokens"))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// said is an answer as the session keeps it, with what it used.
type said struct {
	message session.Message
	finish  string
	usage   session.Usage
	cost    session.Cost
	model   string
}

const finishKey = "finishReason"

// heard makes a message of a response. Each call has an id of its own, and a
// reason to stop that matters later is kept with the message.
func (r *Run) heard(a asking, response llm.Response, stepID string) said {
	u := response.Usage
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.Reasoning} {
		*n = max(*n, 0)
	}
	cost := response.Cost
	if priced, ok := a.model.(llm.Priced); ok {
		cost = priced.Cost(u)
	}
	m := session.Message{
		ID: r.x.c.NewID(), Role: session.RoleAssistant, Content: response.Content, StepID: stepID, Trace: len(response.ToolCalls) > 0,
	}
	seen := map[string]bool{}
	for _, call := range response.ToolCalls {
		if call.ID == "" || seen[call.ID] || r.used(call.ID) {
			call.ID = "call_" + r.x.c.NewID()
		}
		call.Name = orText(call.Name, "unnamed")
		seen[call.ID] = true
		m.ToolCalls = append(m.ToolCalls, call)
	}
	if cutOff(response.FinishReason) {
		m.Metadata = session.Values{finishKey: raw(response.FinishReason)}
	}
	return said{message: m, finish: response.FinishReason, usage: u, cost: max(cost, 0), model: orText(response.Model, a.name)}
}

// used reports a call id that stands in the transcript already.
func (r *Run) used(callID string) bool {
	for _, m := range r.session().All() {
		if slices.ContainsFunc(m.ToolCalls, func(c session.ToolCall) bool { return c.ID == callID }) {
			return true
		}
	}
	return false
}

func cutOff(finish string) bool {
	switch strings.ToLower(finish) {
	case "length", "max_tokens":
		return true
	}
	return false
}

// counted is a turn in the books: what a model's answer adds to usage and to
// the counts of turns.
func (r *Run) counted(a said) (usage []session.Change, count func(*session.TaskState)) {
	dollars := float64(a.cost) / 1e6
	count = func(s *session.TaskState) {
		s.Loop.Iterations++
		s.Loop.Turns++
		s.Loop.LifetimeTurns++
		s.Usage.Input += a.usage.Input
		s.Usage.Output += a.usage.Output
		s.Usage.Cost += dollars
	}
	if a.usage == (session.Usage{}) && a.cost == 0 {
		return nil, count
	}
	after := r.state()
	count(&after)
	provider, id, named := strings.Cut(a.model, "/")
	if !named {
		provider, id = "", a.model
	}
	delta := map[string]any{"inputTokens": a.usage.Input, "outputTokens": a.usage.Output, "cachedTokens": a.usage.CacheRead, "cost": dollars}
	if a.usage.CacheWrite > 0 {
		delta["cacheWriteTokens"] = a.usage.CacheWrite
	}
	u := after.Usage
	return []session.Change{event("llm_usage", map[string]any{
		"providerType": provider, "modelId": id, "delta": delta, "totals": map[string]any{
			"inputTokens": u.EarlierInput + u.Input, "outputTokens": u.EarlierOutput + u.Output, "cost": costUsed(u),
		},
	})}, count
}
