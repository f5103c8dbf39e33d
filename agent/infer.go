package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// infer asks the model and opens a step with its answer.
func (r *run) infer(ctx context.Context, e *session.Execution) error {
	started := r.Now()
	stepID := r.NewID()
	name, model, err := r.Model(r.s)
	if err != nil {
		return r.giveUp(stepID, name, started, err)
	}
	work, done := r.underWay(ctx, e)
	defer done()
	request, err := r.fitting(work, name, model)
	if err != nil {
		return r.unanswered(ctx, work, e, func() error { return r.giveUp(stepID, name, started, err) })
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.notify(Notice{Kind: StepStarted, StepID: stepID, StepNumber: len(e.Steps) + 1, Model: name})
	response, err := r.ask(work, stepID, model, request)
	if err != nil {
		return r.unanswered(ctx, work, e, func() error { return r.giveUp(stepID, name, started, err) })
	}
	response.Usage = r.usage(request, response)
	return r.answer(ctx, stepID, started, name, model, response)
}

// unanswered decides what follows a call that failed: its own trouble is the
// last to be blamed.
func (r *run) unanswered(ctx, work context.Context, e *session.Execution, giveUp func() error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case Cancelled(work):
		return nil // the loop finds the cancel in its inbox
	case work.Err() != nil: // time or the deadline ran out during the call
		signal, over := r.overBudget(e, false)
		if !over {
			signal = session.Signal{Reason: session.StopTime, Message: "the call ran out of time", Source: "budget"}
		}
		return r.finish(signal)
	}
	return giveUp()
}

// fitting is a request that fits the model, if need be after moving the window.
func (r *run) fitting(ctx context.Context, name string, model llm.Model) (llm.Request, error) {
	r.recollect(ctx)
	request, err := r.request(ctx, name)
	if err != nil || r.Fit == nil {
		return request, err
	}
	next, err := r.Fit(ctx, r.s, model, request)
	if err != nil || next.Seq() == r.s.Seq() {
		return request, err
	}
	r.s = next
	return r.request(ctx, name)
}

// recollect asks memory about the user's last message, once.
func (r *run) recollect(ctx context.Context) {
	if r.Recall == nil {
		return
	}
	asked, ok := lastFromUser(r.s, math.MaxInt64)
	if !ok || asked.ID == r.recalled.messageID {
		return
	}
	r.recalled = recollection{messageID: asked.ID}
	r.recalled.text, r.recalled.ids = r.Recall(ctx, r.s, asked)
}

// request is what the model is told, built from the session and what memory
// adds to it.
func (r *run) request(ctx context.Context, name string) (llm.Request, error) {
	tools, err := r.Tools(ctx, r.s)
	if err != nil {
		return llm.Request{}, err
	}
	system := r.s.SystemPrompt()
	if r.System != nil {
		system = r.System(r.s)
	}
	if r.recalled.text != "" {
		system = strings.TrimSpace(system + "\n\n" + r.recalled.text)
	}
	request := llm.Request{
		Model: name, System: system, Messages: Transcript(r.s), Params: r.s.ModelParams(), ResponseFormat: r.s.State().ResponseFormat,
		Agent: r.s.Info().AgentName, SessionID: r.s.ID(), Inference: r.s.InferenceCount(),
	}
	for _, t := range tools.All() {
		spec := t.Spec()
		request.Tools = append(request.Tools, llm.Tool{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
	}
	return request, nil
}

// Transcript is what a model is sent of a session: the summary, if there is
// one, and the window, in a form every provider accepts. Where the definition
// says so, tool exchanges of earlier executions are left out. A window without
// any user's message reaches back to the nearest one.
func Transcript(s session.Session) []session.Message {
	shown := s.WindowMessages()
	if m := s.Definition().Memory; m != nil && m.ToolTrace == "current" {
		shown = slices.DeleteFunc(shown, func(m session.Message) bool {
			exchange := m.ToolResult != nil || len(m.ToolCalls) > 0
			return exchange && (!s.Running() || m.ExecutionID != s.Execution().ID)
		})
	}
	if summary := s.Window().Summary; summary != nil {
		first := session.Message{
			ID: fmt.Sprintf("summary-%d-%d", summary.FromSeq, summary.ToSeq), Role: session.RoleUser, CreatedAt: summary.CreatedAt,
			Content: session.Text("Summary of the conversation so far:\n" + summary.Text),
		}
		shown = append([]session.Message{first}, shown...)
	}
	if len(shown) > 0 && !slices.ContainsFunc(shown, fromUser) {
		if m, ok := lastFromUser(s, s.Window().FromSeq); ok {
			shown = append([]session.Message{m}, shown...)
		}
	}
	return session.Sendable(shown)
}

func fromUser(m session.Message) bool { return m.Role == session.RoleUser }

// lastFromUser is the last message of a user before a number.
func lastFromUser(s session.Session, before int64) (session.Message, bool) {
	for i := s.Len() - 1; i >= 0; i-- {
		if m := s.Message(i); m.Seq < before && fromUser(m) {
			return m, true
		}
	}
	return session.Message{}, false
}

// ask calls the model, again after transient errors. Every attempt that came to
// nothing is told: what it has streamed is void.
func (r *run) ask(ctx context.Context, stepID string, model llm.Model, request llm.Request) (llm.Response, error) {
	for {
		response, err := r.call(ctx, model, request)
		if err == nil {
			return response, nil
		}
		pause, err := r.again(ctx, request.Attempt, err)
		r.notify(Notice{Kind: AttemptFailed, StepID: stepID, Attempt: request.Attempt, Retry: err == nil})
		if err != nil {
			return response, err
		}
		if err := sleep(ctx, pause); err != nil {
			return response, err
		}
		request.Attempt++
	}
}

// again is how long to wait before the next attempt, or the error of a call
// that is not tried again.
func (r *run) again(ctx context.Context, attempt int, err error) (time.Duration, error) {
	var transient *llm.TransientError
	if ctx.Err() != nil || !errors.As(err, &transient) {
		return 0, err
	}
	if attempt >= r.Retries {
		return 0, &exhausted{attempts: attempt + 1, err: err}
	}
	pause := transient.After
	if pause == 0 {
		pause = r.backoff(attempt)
	}
	if pause > r.maxPause() {
		return 0, &exhausted{attempts: attempt + 1, err: fmt.Errorf("%w (asked to wait %s)", err, pause)}
	}
	return pause, nil
}

// call asks once and turns a panic into an error.
func (r *run) call(ctx context.Context, model llm.Model, request llm.Request) (response llm.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &session.PanicError{Where: "model " + strconv.Quote(request.Model), Value: v}
		}
	}()
	return model.Infer(ctx, request, r.Stream)
}

// exhausted is a transient error that did not pass.
type exhausted struct {
	attempts int
	err      error
}

func (e *exhausted) Error() string { return fmt.Sprintf("%d attempts failed: %v", e.attempts, e.err) }
func (e *exhausted) Unwrap() error { return e.err }

func (r *run) maxPause() time.Duration {
	if r.MaxPause > 0 {
		return r.MaxPause
	}
	return 2 * time.Minute
}

func (r *run) backoff(attempt int) time.Duration {
	if r.Backoff != nil {
		return r.Backoff(attempt)
	}
	return min(250*time.Millisecond<<min(attempt, 10), 8*time.Second)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveUp ends the execution as failed.
func (r *run) giveUp(stepID, model string, started time.Time, cause error) error {
	r.cause = cause
	reason := session.StopError
	var out *exhausted
	if errors.As(cause, &out) {
		reason = session.StopRetries
	}
	stop := session.Signal{Reason: reason, Message: cause.Error(), Source: "model"}
	err := r.record(
		session.InferenceFailed{
			StepID: stepID, Model: model, StartedAt: started, ActiveSeconds: r.active(),
			Errors: []session.Failure{{Kind: string(reason), Message: cause.Error()}},
		},
		session.ExecutionFinished{Status: reason.Status(), Stop: &stop, Signals: []session.Signal{stop}, ActiveSeconds: r.active()},
	)
	if err != nil {
		return err
	}
	r.notify(Notice{Kind: ExecutionFinished, Status: reason.Status(), Stop: reason})
	return nil
}

// usage is what an answer used. A provider that tells nothing must not make a
// budget void.
func (r *run) usage(request llm.Request, response llm.Response) session.Usage {
	b := r.s.Execution().Budget
	if response.Usage.Total() > 0 || r.Count == nil || b == nil || b.MaxTokens == nil && b.MaxCost == nil {
		return response.Usage
	}
	return r.Count(r.s, request, session.Message{Role: session.RoleAssistant, Content: response.Content, ToolCalls: response.ToolCalls})
}

// answer records what the model said. A final answer is durable at once, also
// when the context has just ended: it is paid for. One that asks for tools is
// durable before the first of them runs.
func (r *run) answer(ctx context.Context, stepID string, started time.Time, name string, model llm.Model, response llm.Response) error {
	cost := response.Cost
	if priced, ok := model.(llm.Priced); ok {
		cost = priced.Cost(response.Usage)
	}
	said := session.Message{
		ID: r.NewID(), Role: session.RoleAssistant, Content: response.Content, ToolCalls: r.distinct(response.ToolCalls),
		ExecutionID: r.s.Execution().ID, StepID: stepID, Trace: len(response.ToolCalls) > 0,
	}
	if response.Model != "" {
		name = response.Model
	}
	changes := []session.Change{
		session.InferenceAnswered{
			StepID: stepID, Model: name, StartedAt: started, FinishReason: response.FinishReason,
			Usage: response.Usage, Cost: cost, ActiveSeconds: r.active(), Recalled: r.recalled.ids,
		},
		session.MessageAdded{Message: said},
	}
	if len(response.ToolCalls) > 0 {
		return r.record(changes...)
	}
	changes = append(changes, session.StepFinished{
		StepID: stepID, Type: session.StepFinal, Signals: finishSignal(response.FinishReason), ActiveSeconds: r.active(),
	})
	if err := r.record(changes...); err != nil {
		return err
	}
	if err := r.flush(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	r.notify(Notice{Kind: StepFinished, StepID: stepID})
	return nil
}

// finishSignal is the signal of an answer that was cut off.
func finishSignal(reason string) []session.Signal {
	switch strings.ToLower(reason) {
	case "length", "max_tokens", "content_filter", "refusal":
		return []session.Signal{{Reason: session.StopFinishReason, Message: reason, Source: "model"}}
	}
	return nil
}

// distinct gives each call of an answer an id of its own, so that a result
// belongs to one call only.
func (r *run) distinct(calls []session.ToolCall) []session.ToolCall {
	seen := map[string]bool{}
	for i := range calls {
		if calls[i].ID == "" || seen[calls[i].ID] {
			calls[i].ID = "call_" + r.NewID()
		}
		seen[calls[i].ID] = true
	}
	return calls
}
