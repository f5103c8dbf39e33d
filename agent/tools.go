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
	"github.com/holdfast-dev/holdfast/tool"
)

// maxTogether bounds how many calls of one answer run at the same time.
const maxTogether = 8

// settle brings every tool call of the open step to a result and closes the
// step. Calls whose result is written are left alone.
func (r *run) settle(ctx context.Context, step session.Step) error {
	tools, err := r.Tools(ctx, r.s)
	if err != nil {
		return err
	}
	calls := r.calls(step)
	var waiting []session.ToolCall
	for _, call := range calls {
		if callState(step, call.ID) != callDone {
			waiting = append(waiting, call)
		}
	}
	signals, err := r.carryOutAll(ctx, step, waiting, tools)
	if err != nil {
		return err
	}
	kind := session.StepTools
	if len(calls) == 0 {
		kind = session.StepFinal
	}
	err = r.record(session.StepFinished{StepID: step.ID, Type: kind, Signals: signals, ActiveSeconds: r.active()})
	if err != nil {
		return err
	}
	r.notify(Notice{Kind: StepFinished, StepID: step.ID, StepNumber: step.Number})
	return nil
}

// carryOutAll brings calls to their results, group by group. Those that were
// cancelled before they began are not run.
func (r *run) carryOutAll(ctx context.Context, step session.Step, waiting []session.ToolCall, tools tool.Set) (signals []session.Signal, err error) {
	if len(waiting) == 0 {
		return nil, nil
	}
	work, done := r.underWay(ctx, r.s.Execution())
	defer done()
	for len(waiting) > 0 {
		n := together(waiting, tools)
		over, err := r.carryOut(ctx, work, step, waiting[:n], tools)
		if err != nil {
			return nil, err
		}
		if over != nil {
			signals = []session.Signal{*over}
		}
		waiting = waiting[n:]
	}
	return signals, nil
}

// together is how many of the first calls may run at the same time: one, or
// as many as follow each other and do no harm to one another.
func together(calls []session.ToolCall, tools tool.Set) int {
	n := 0
	for n < len(calls) && n < maxTogether {
		if t, known := tools.Get(calls[n].Name); known && !t.Spec().Concurrent() {
			break
		}
		n++
	}
	return max(n, 1)
}

// calls are those of the step's answer.
func (r *run) calls(step session.Step) []session.ToolCall {
	for i := r.s.Len() - 1; i >= 0; i-- {
		if m := r.s.Message(i); m.StepID == step.ID && m.Role == session.RoleAssistant {
			return m.ToolCalls
		}
	}
	return nil
}

// stateOfCall is how far a call had come.
type stateOfCall int

const (
	callWaiting stateOfCall = iota
	callStarted
	callDone
)

func callState(step session.Step, id string) stateOfCall {
	for _, e := range step.ToolExecutions {
		if e.CallID != id {
			continue
		}
		if e.CompletedAt != nil {
			return callDone
		}
		return callStarted
	}
	return callWaiting
}

// carryOut brings calls to their results, all at the same time. What a call
// did is durable before the next thing relies on it; calls cut off by the end
// of the context have no result yet, those cut off by the end of work alone
// have an error. Over is the limit that kept one from running.
func (r *run) carryOut(ctx, work context.Context, step session.Step, calls []session.ToolCall, tools tool.Set) (over *session.Signal, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var running []session.ToolCall
	for _, call := range calls {
		refusal, signal := r.refusal(work, step, call, tools)
		if signal != nil {
			over = signal
		}
		if refusal != nil {
			err = r.result(step, call, refusal.Result, refusal.synthetic)
		} else {
			running = append(running, call)
			err = r.record(session.ToolStarted{StepID: step.ID, CallID: call.ID, ToolName: call.Name})
		}
		if err != nil {
			return over, err
		}
	}
	if len(running) == 0 {
		return over, nil
	}
	if err := r.flush(ctx); err != nil {
		return over, err
	}
	outcomes, writes := make(chan outcome, len(running)), newTail()
	defer close(writes.over)
	for _, call := range running {
		r.notify(Notice{Kind: ToolStarted, StepID: step.ID, StepNumber: step.Number, CallID: call.ID, Tool: call.Name})
		t, _ := tools.Get(call.Name)
		use := tool.Call{ID: call.ID, SessionID: r.s.ID(), Arguments: call.Arguments}
		go func() {
			result, err := r.invoke(context.WithValue(work, tailKey{}, callTail{writes, use.ID}), t, use)
			outcomes <- outcome{call: call, result: result, err: err}
		}()
	}
	return over, r.collect(ctx, step, outcomes, writes.asks, len(running))
}

// outcome is how a call ended.
type outcome struct {
	call   session.ToolCall
	result tool.Result
	err    error
}

// collect records outcomes as they come, each durable as soon as it is there.
// The last is durable before the next tool runs or the model is asked.
func (r *run) collect(ctx context.Context, step session.Step, outcomes <-chan outcome, asks <-chan ask, n int) error {
	var failed error // of recording: the calls are waited for even so
	cutOff := false
	for left := n - 1; left >= 0; left-- {
		o := r.next(ctx, outcomes, asks)
		if o.err != nil && ctx.Err() != nil {
			cutOff = true // whether it took effect is decided on resume
			continue
		}
		if failed != nil {
			continue
		}
		if o.err != nil {
			o.result.Content, o.result.IsError = o.err.Error(), true
		}
		failed = r.result(step, o.call, o.result, false)
		if failed == nil && left > 0 {
			failed = r.flush(context.WithoutCancel(ctx))
		}
	}
	if failed == nil && cutOff {
		return ctx.Err()
	}
	return failed
}

// next waits for a call to end, and meanwhile writes what the others ask for.
func (r *run) next(ctx context.Context, outcomes <-chan outcome, asks <-chan ask) outcome {
	for {
		select {
		case o := <-outcomes:
			return o
		case q := <-asks:
			r.serve(ctx, q)
		}
	}
}

// refusal is the result of a call that is not run, nil for one that is. A
// call that was running when the process ended runs again only if its tool
// says that this does no harm.
func (r *run) refusal(work context.Context, step session.Step, call session.ToolCall, tools tool.Set) (*refused, *session.Signal) {
	started := callState(step, call.ID) == callStarted // by a process that ended
	if why, over := r.halted(work); why != "" {
		content := "not run: " + why
		if started {
			content = session.UnknownOutcome
		}
		return &refused{tool.Result{Content: content, IsError: true}, true}, over
	}
	t, known := tools.Get(call.Name)
	if started && (!known || t.Spec().Nature == tool.Once) { // a tool that is gone says nothing about harm
		return &refused{tool.Result{Content: session.UnknownOutcome, IsError: true}, true}, nil
	}
	if !known {
		return &refused{tool.Result{IsError: true, Content: fmt.Sprintf(
			"unknown tool %q; available: %s", call.Name, strings.Join(tools.Names(), ", "))}, false}, nil
	}
	if _, bad := llm.Malformed(call.Arguments); bad {
		return &refused{tool.Result{Content: "not run: the arguments are not a JSON object", IsError: true}, false}, nil
	}
	return nil, nil
}

// halted is why no call may begin any more, "" where one may. Over is the limit
// that was reached.
func (r *run) halted(work context.Context) (why string, over *session.Signal) {
	if Cancelled(work) {
		return errCancelled.Error(), nil
	}
	if signal, reached := r.overBudget(r.s.Execution(), false); reached {
		return signal.Message, &signal
	}
	return "", nil
}

type refused struct {
	tool.Result
	synthetic bool
}

var (
	errOutOfTime = errors.New("stopped: it ran out of time")
	errCalledOff = fmt.Errorf("stopped: %w", errCancelled)
	errStuck     = errors.New("given up: it went on after its time was over, and may still do so")
	errVanished  = errors.New("it ended without a result")
)

func (r *run) invoke(ctx context.Context, t tool.Tool, c tool.Call) (tool.Result, error) {
	return Invoke(ctx, t, c, r.grace())
}

// Invoke calls a tool within its time and turns a panic into an error. One that
// does not end by then, nor in a moment of grace, is left to itself.
func Invoke(ctx context.Context, t tool.Tool, c tool.Call, grace time.Duration) (tool.Result, error) {
	if limit := t.Spec().Timeout; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	ended := make(chan outcome, 1)
	go func() {
		o := outcome{err: errVanished}
		defer func() { ended <- o }() // also when the tool ends its goroutine
		o.result, o.err = call(ctx, t, c)
	}()
	o := outcome{err: errStuck}
	select {
	case o = <-ended:
	case <-ctx.Done():
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case o = <-ended:
		case <-patience.C:
		}
	}
	switch {
	case o.err == nil, errors.Is(o.err, errStuck):
	case Cancelled(ctx):
		o.err = errCalledOff
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		o.err = errOutOfTime
	}
	return o.result, o.err
}

// bounded is a result of a length that a session can hold and a model may be
// shown: of one that is longer, the beginning.
func (r *run) bounded(content string) string {
	most := r.MaxResult
	if most <= 0 {
		most = 256 << 10
	}
	if len(content) <= most {
		return content
	}
	kept := strings.ToValidUTF8(content[:most], "")
	return fmt.Sprintf("%s\n\n[cut off: these are the first %d of %d bytes]", kept, len(kept), len(content))
}

func (r *run) grace() time.Duration {
	if r.Grace > 0 {
		return r.Grace
	}
	return 5 * time.Second
}

// call calls a tool and turns a panic into an error.
func call(ctx context.Context, t tool.Tool, c tool.Call) (result tool.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &session.PanicError{Where: "tool " + strconv.Quote(t.Spec().Name), Value: v}
		}
	}()
	return t.Call(ctx, c)
}

// result records a call's result. It is durable before the next tool runs or
// the model is asked, also when the context ends in between.
func (r *run) result(step session.Step, call session.ToolCall, result tool.Result, synthetic bool) error {
	result.Content = r.bounded(result.Content)
	err := r.record(
		session.MessageAdded{Message: session.Message{
			ID: r.NewID(), Role: session.RoleTool, ExecutionID: r.s.Execution().ID, StepID: step.ID, Trace: true,
			ToolResult: &session.ToolResult{
				CallID: call.ID, ToolName: call.Name, Content: result.Content, IsError: result.IsError, Synthetic: synthetic,
			},
		}},
		session.ToolFinished{
			StepID: step.ID, CallID: call.ID, ToolName: call.Name, IsError: result.IsError, Synthetic: synthetic, ActiveSeconds: r.active(),
			ChildSessionID: result.ChildSessionID, Spent: result.Spent,
		},
	)
	if err != nil {
		return err
	}
	r.notify(Notice{Kind: ToolFinished, StepID: step.ID, StepNumber: step.Number, CallID: call.ID, Tool: call.Name, IsError: result.IsError})
	return nil
}
