package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// infer asks the model and opens a step with its answer.
func (r *run) infer(ctx context.Context, e *session.Execution) error {
	if r.Steps != nil {
		next, err := r.Steps.Before(ctx, r.s)
		if err := r.keep(next, err); err != nil {
			return err
		}
	}
	started, stepID := r.Now(), r.NewID()
	name, model, err := r.Model(r.s)
	if err != nil {
		return r.noAnswer(ctx, ctx, e, failedStep{stepID, name, started, err})
	}
	work, done := r.callContext(ctx, e)
	defer done()
	request, err := r.fitRequest(work, name, model)
	if err != nil {
		return r.noAnswer(ctx, work, e, failedStep{stepID, name, started, err})
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.notify(Notice{Kind: StepStarted, StepID: stepID, StepNumber: len(e.Steps) + 1, Model: name})
	response, err := r.ask(work, stepID, model, request)
	if err != nil {
		return r.noAnswer(ctx, work, e, failedStep{stepID, name, started, err})
	}
	response.Usage = r.usage(request, response)
	return r.recordAnswer(ctx, stepID, started, name, model, response)
}

// failedStep is an inference without an answer.
type failedStep struct {
	id      string
	model   string
	started time.Time
	cause   error
}

// noAnswer decides what follows a call that failed. The end of the context, a
// cancel and the end of the time are looked at before the call's own error.
func (r *run) noAnswer(ctx, work context.Context, e *session.Execution, f failedStep) error {
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
	if r.Steps != nil {
		next, again, err := r.Steps.Failed(ctx, r.s, f.cause)
		if err := r.keep(next, err); err != nil || again {
			return err
		}
	}
	return r.giveUp(f)
}

// ask calls the model, again after transient errors. Every failed attempt is
// reported: what it has streamed is void.
func (r *run) ask(ctx context.Context, stepID string, model llm.Model, request llm.Request) (llm.Response, error) {
	c := r.Config
	c.Notify = func(n Notice) {
		n.StepID = stepID
		r.notify(n)
	}
	return c.retry(ctx, request, func(request llm.Request) (llm.Response, error) {
		r.renamed = map[string]string{}
		return r.call(ctx, model, request)
	})
}

// Ask asks a model once, outside any execution, with the retries of the
// configuration. Nothing is streamed or recorded.
func (c Config) Ask(ctx context.Context, model llm.Model, request llm.Request) (llm.Response, error) {
	r := &run{Config: Config{}}
	return c.retry(ctx, request, func(request llm.Request) (llm.Response, error) { return r.call(ctx, model, request) })
}

func (c Config) retry(ctx context.Context, request llm.Request, call func(llm.Request) (llm.Response, error)) (llm.Response, error) {
	for {
		response, failed := call(request)
		if failed == nil {
			return response, nil
		}
		pause, err := c.retryAfter(ctx, request.Attempt, failed)
		if c.Notify != nil {
			c.Notify(Notice{Kind: AttemptFailed, Attempt: request.Attempt, Retry: err == nil, Pause: pause, Err: failed})
		}
		if err != nil {
			return response, err
		}
		if err := sleep(ctx, pause); err != nil {
			return response, err
		}
		request.Attempt++
	}
}

// retryAfter returns how long to wait before the next attempt, or the error of
// a call that is not tried again.
func (c Config) retryAfter(ctx context.Context, attempt int, err error) (time.Duration, error) {
	var transient *llm.TransientError
	if ctx.Err() != nil || !errors.As(err, &transient) || llm.OutOfQuota(err) {
		return 0, err
	}
	if attempt >= c.Retries {
		return 0, &exhausted{attempts: attempt + 1, err: err}
	}
	pause := transient.After
	if pause == 0 {
		pause = c.backoff(attempt)
	}
	if pause > c.maxPause() {
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
	if r.Stream == nil {
		return model.Infer(ctx, request, nil)
	}
	return model.Infer(ctx, request, func(d llm.Delta) {
		if d.ToolCall != nil {
			call := *d.ToolCall
			call.ID = r.callID(call.ID)
			d.ToolCall = &call
		}
		r.Stream(d)
	})
}

// exhausted is a transient error that did not pass.
type exhausted struct {
	attempts int
	err      error
}

func (e *exhausted) Error() string { return fmt.Sprintf("%d attempts failed: %v", e.attempts, e.err) }
func (e *exhausted) Unwrap() error { return e.err }

func (c Config) maxPause() time.Duration {
	if c.MaxPause > 0 {
		return c.MaxPause
	}
	return 2 * time.Minute
}

func (c Config) backoff(attempt int) time.Duration {
	if c.Backoff != nil {
		return c.Backoff(attempt)
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
func (r *run) giveUp(f failedStep) error {
	r.cause = f.cause
	reason := session.StopError
	var out *exhausted
	if errors.As(f.cause, &out) {
		reason = session.StopRetries
	}
	stop := session.Signal{Reason: reason, Message: f.cause.Error(), Source: "model"}
	err := r.record(
		session.InferenceFailed{
			StepID: f.id, Model: f.model, StartedAt: f.started, ActiveSeconds: r.active(),
			Errors: []session.Failure{{Kind: string(reason), Message: f.cause.Error()}},
		},
		session.ExecutionFinished{Status: reason.Status(), Stop: &stop, Signals: []session.Signal{stop}, ActiveSeconds: r.active()},
	)
	if err != nil {
		return err
	}
	r.notify(Notice{Kind: ExecutionFinished, Status: reason.Status(), Stop: reason})
	return nil
}

// usage returns what an answer used. A provider that reports nothing must not
// make a budget void, nor one that reports less than nothing lower what was
// used.
func (r *run) usage(request llm.Request, response llm.Response) session.Usage {
	for _, n := range []*int64{&response.Usage.Input, &response.Usage.Output, &response.Usage.CacheRead, &response.Usage.CacheWrite, &response.Usage.Reasoning} {
		*n = max(*n, 0)
	}
	b := r.s.Execution().Budget
	if response.Usage.Total() > 0 || r.Count == nil || b == nil || b.MaxTokens == nil && b.MaxCost == nil {
		return response.Usage
	}
	return r.Count(r.s, request, session.Message{Role: session.RoleAssistant, Content: response.Content, ToolCalls: response.ToolCalls})
}

// recordAnswer records what the model said. A final answer is durable at once,
// also when the context has just ended: it is paid for. One that calls tools is
// durable before the first of them runs.
func (r *run) recordAnswer(ctx context.Context, stepID string, started time.Time, name string, model llm.Model, response llm.Response) error {
	cost := llm.CostOf(model, response)
	said := session.Message{
		ID: r.NewID(), Role: session.RoleAssistant, Content: response.Content, ToolCalls: r.uniqueCalls(response.ToolCalls),
		ExecutionID: r.s.Execution().ID, StepID: stepID, Trace: len(response.ToolCalls) > 0,
	}
	if response.Model != "" {
		name = response.Model
	}
	changes := []session.Change{
		session.InferenceAnswered{
			StepID: stepID, Model: name, StartedAt: started, FinishReason: response.FinishReason,
			Usage: response.Usage, Cost: cost, ActiveSeconds: r.active(), Recalled: r.recalled.IDs, Reasons: r.recalled.Reasons,
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
	if err := r.flushAnyway(ctx); err != nil {
		return err
	}
	r.notify(Notice{Kind: StepFinished, StepID: stepID, Model: name, Usage: response.Usage, Cost: cost})
	return nil
}

// finishSignal returns the signal of an answer that was cut off.
func finishSignal(reason string) []session.Signal {
	switch strings.ToLower(reason) {
	case "length", "max_tokens", "content_filter", "refusal":
		return []session.Signal{{Reason: session.StopFinishReason, Message: reason, Source: "model"}}
	}
	return nil
}

// uniqueCalls gives each call of an answer an id that no other call of the
// session has: results, subagents and memory writes are found by it.
func (r *run) uniqueCalls(calls []session.ToolCall) []session.ToolCall {
	used := map[string]bool{}
	for i, c := range calls {
		id := r.callID(c.ID)
		if used[id] {
			id = "call_" + r.NewID()
		}
		used[id] = true
		calls[i].ID = id
	}
	return calls
}

// callID returns the session's id for a call that the provider names so: the
// provider's where it is unique in the session, a new one otherwise. The pieces
// of a streamed call all get the same one. Where the session does not hold its
// whole transcript, nobody can say what is unique, and every id is new.
func (r *run) callID(provided string) string {
	if id, known := r.renamed[provided]; known && provided != "" {
		return id
	}
	id := provided
	if provided == "" || r.s.Partial() || r.s.HasToolCall(provided) {
		id = "call_" + r.NewID()
	}
	if r.renamed == nil {
		r.renamed = map[string]string{}
	}
	r.renamed[provided] = id
	return id
}
