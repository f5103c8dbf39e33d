package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// maxParallel bounds how many calls of one answer run at the same time.
const maxParallel = 8

// settle brings every tool call of the open step to a result and closes the
// step. Calls whose result is written are left alone. It ends with errWaits
// while calls wait for a response.
func (r *run) settle(ctx context.Context, step session.Step) error {
	tools, err := r.Tools(ctx, r.s)
	if err != nil {
		return err
	}
	if err := r.takeResponses(ctx, step); err != nil {
		return err
	}
	signals, err := r.runCalls(ctx, step, tools)
	if err != nil {
		return err
	}
	if r.waits() {
		return r.wait()
	}
	kind := session.StepTools
	if len(r.calls(step)) == 0 {
		kind = session.StepFinal
	}
	err = r.record(session.StepFinished{StepID: step.ID, Type: kind, Signals: signals, ActiveSeconds: r.active()})
	if err != nil {
		return err
	}
	r.notify(Notice{Kind: StepFinished, StepID: step.ID, StepNumber: step.Number, Model: step.Model, Usage: step.Usage, Cost: step.Cost})
	return nil
}

// runCalls brings the calls of a step to their results, group by group, except
// those that wait for a response. After a call that waits, only calls that may
// run beside others start; the rest keeps its order.
func (r *run) runCalls(ctx context.Context, step session.Step, tools tool.Set) (signals []session.Signal, err error) {
	open := r.openCalls()
	if len(open) == 0 {
		return nil, nil
	}
	work, done := r.callContext(ctx, r.s.Execution())
	defer done()
	for len(open) > 0 {
		n := groupSize(open, tools)
		over, err := r.runGroup(ctx, work, step, open[:n], tools)
		if err != nil {
			return nil, err
		}
		if over != nil {
			signals = []session.Signal{*over}
		}
		open = open[n:]
	}
	return signals, nil
}

// groupSize returns how many of the first calls may run at the same time.
func groupSize(calls []session.ToolCall, tools tool.Set) int {
	n := 0
	for n < len(calls) && n < maxParallel {
		if t, known := tools.Get(calls[n].Name); known && !t.Spec().Concurrent() {
			break
		}
		n++
	}
	return max(n, 1)
}

// calls returns the calls of the step's answer.
func (r *run) calls(step session.Step) []session.ToolCall {
	for i := r.s.Len() - 1; i >= 0; i-- {
		if m := r.s.Message(i); m.StepID == step.ID && m.Role == session.RoleAssistant {
			return m.ToolCalls
		}
	}
	return nil
}

// openCalls returns the calls that have no result and wait for no response.
func (r *run) openCalls() []session.ToolCall {
	step, _ := lastStep(r.s.Execution())
	return slices.DeleteFunc(slices.Clone(r.calls(step)), func(c session.ToolCall) bool {
		p, pending := r.s.PendingCall(c.ID)
		return stateOf(step, c.ID) == callDone || pending && p.Waiting()
	})
}

// callState is how far a call had come.
type callState int

const (
	callNew callState = iota
	callStarted
	callDone
)

func stateOf(step session.Step, id string) callState {
	for _, e := range step.ToolExecutions {
		if e.CallID != id {
			continue
		}
		if e.CompletedAt != nil {
			return callDone
		}
		return callStarted
	}
	return callNew
}

// runGroup brings calls to their results, all at the same time. What a call did
// is durable before the next thing relies on it. Calls cut off by the end of
// the context have no result yet; those cut off by the end of work alone have
// an error. Over is the limit that kept a call from running.
func (r *run) runGroup(ctx, work context.Context, step session.Step, calls []session.ToolCall, tools tool.Set) (over *session.Signal, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var running []session.ToolCall
	permits := map[string]tool.Permit{}
	for _, call := range calls {
		t, _ := tools.Get(call.Name)
		d, err := r.decide(ctx, work, Call{ToolCall: call, StepID: step.ID, Tool: t}, tools)
		if err != nil {
			return over, err
		}
		if d.over != nil {
			over = d.over
		}
		switch {
		case d.Pending != nil:
			err = r.setPending(step, call, *d.Pending, d.Changes)
		case d.Refusal != nil:
			if err = r.recordResult(step, call, *d.Refusal, d.synthetic); err == nil {
				err = r.record(d.Changes...)
			}
		case r.waits() && !t.Spec().Concurrent():
			// It runs once the calls before it have their results.
		default:
			running = append(running, call)
			permits[call.ID] = d.Permit
			if err = r.record(session.ToolStarted{StepID: step.ID, CallID: call.ID, ToolName: call.Name}); err == nil {
				err = r.record(d.Changes...)
			}
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
	outcomes, writes := make(chan outcome, len(running)), newWriteRequests()
	defer close(writes.over)
	for _, call := range running {
		r.notify(Notice{Kind: ToolStarted, StepID: step.ID, StepNumber: step.Number, CallID: call.ID, Tool: call.Name})
		t, _ := tools.Get(call.Name)
		use := tool.Call{ID: call.ID, SessionID: r.s.ID(), Arguments: call.Arguments}
		inside := context.WithValue(work, writerKey{}, callWriter{writes, use.ID})
		if r.Gate != nil {
			inside = tool.WithPermit(inside, permits[call.ID])
		}
		go func() {
			result, err := r.invoke(inside, t, use)
			outcomes <- outcome{call: call, result: result, err: err}
		}()
	}
	return over, r.collect(ctx, step, outcomes, writes.queue, len(running))
}

// outcome is how a call ended.
type outcome struct {
	call   session.ToolCall
	result tool.Result
	err    error
}

// collect records outcomes as they come, each durable as soon as it is there.
// The last is durable before the next tool runs or the model is asked.
func (r *run) collect(ctx context.Context, step session.Step, outcomes <-chan outcome, writes <-chan writeRequest, n int) error {
	var failed error // of recording: the calls are waited for even so
	var cutOff error // why a call has no result: whether it took effect is decided on resume
	for left := n - 1; left >= 0; left-- {
		o := r.next(ctx, outcomes, writes)
		if o.err != nil && ctx.Err() != nil {
			cutOff = ctx.Err()
			continue
		}
		if unfinished := (*UnfinishedError)(nil); errors.As(o.err, &unfinished) {
			cutOff = cmp.Or(cutOff, o.err)
			continue
		}
		if failed != nil {
			continue
		}
		if o.err != nil {
			o.result.Content, o.result.IsError = o.err.Error(), true
		}
		if p := o.result.Pending; p != nil && o.err == nil && !r.settling {
			failed = r.setPending(step, o.call, *p, nil)
		} else {
			failed = r.recordResult(step, o.call, o.result, false)
		}
		if failed == nil && left > 0 {
			failed = r.flushAnyway(ctx)
		}
	}
	return cmp.Or(failed, cutOff)
}

// next waits for a call to end, and meanwhile writes what the others ask for.
func (r *run) next(ctx context.Context, outcomes <-chan outcome, writes <-chan writeRequest) outcome {
	for {
		select {
		case o := <-outcomes:
			return o
		case q := <-writes:
			r.serve(ctx, q)
		}
	}
}

// decision is what becomes of a call.
type decision struct {
	Admission
	synthetic bool            // the refusal is the loop's own
	over      *session.Signal // the limit that kept the call from running
}

// decide says whether a call runs, is refused or waits. A call that was running
// when the process ended runs again only if its tool says that this does no
// harm, and if the gate still admits it: the log may come from elsewhere.
func (r *run) decide(ctx, work context.Context, call Call, tools tool.Set) (decision, error) {
	step, _ := lastStep(r.s.Execution())
	started := stateOf(step, call.ID) == callStarted // by a process that ended
	if why, over := r.halted(work); why != "" {
		if started {
			return decision{refuse(session.UnknownOutcome), true, over}, nil
		}
		return decision{refuse("not run: " + why), true, over}, nil
	}
	if started && (call.Tool == nil || call.Tool.Spec().Nature == tool.Once) { // a tool that is gone says nothing about harm
		return decision{refuse(session.UnknownOutcome), true, nil}, nil
	}
	if call.Tool == nil {
		return decision{Admission: refuse(fmt.Sprintf("unknown tool %q; available: %s", call.Name, strings.Join(tools.Names(), ", ")))}, nil
	}
	if _, bad := llm.Malformed(call.Arguments); bad {
		return decision{Admission: refuse("not run: the arguments are not a JSON object")}, nil
	}
	if p, asked := r.s.PendingCall(call.ID); asked {
		call.Approved = p.Response
	}
	var d decision
	if r.Gate != nil {
		var err error
		if d.Admission, err = r.Gate.Admit(ctx, r.s, call); err != nil {
			return d, err
		}
	}
	if checker, ok := call.Tool.(tool.Checker); ok && d.Pending != nil { // nobody is asked about what cannot run
		if err := checker.CheckArguments(call.Arguments); err != nil {
			return decision{Admission: refuse("not run: the arguments do not fit: " + err.Error())}, nil
		}
	}
	if d.Refusal == nil && d.Pending == nil && call.Tool.Spec().Runner != tool.ByProgram {
		d.Admission = remoteCall(call)
	}
	if d.Pending != nil && started { // nobody can say any more what was approved
		return decision{refuse(session.UnknownOutcome), true, nil}, nil
	}
	if d.Pending != nil && r.settling {
		return decision{refuse(cancelledText), true, nil}, nil
	}
	return d, nil
}

func refuse(text string) Admission {
	return Admission{Refusal: &tool.Result{Content: text, IsError: true}}
}

// halted returns why no call may start any more, "" where one may. Over is the
// limit that was reached.
func (r *run) halted(work context.Context) (why string, over *session.Signal) {
	if Cancelled(work) {
		return errCancelled.Error(), nil
	}
	if signal, reached := r.overBudget(r.s.Execution(), false); reached {
		return signal.Message, &signal
	}
	return "", nil
}

// recordResult records a call's result. It is durable before the next tool runs
// or the model is asked, also when the context ends in between.
func (r *run) recordResult(step session.Step, call session.ToolCall, result tool.Result, synthetic bool) error {
	result.Content = r.cutResult(result.Content)
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
