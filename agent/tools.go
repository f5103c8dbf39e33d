package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// settle brings every tool call of the open step to a result and closes the
// step. Calls whose result is written are left alone.
func (r *run) settle(ctx context.Context, step session.Step) error {
	tools, err := r.Tools(r.s)
	if err != nil {
		return err
	}
	var signals []session.Signal
	calls := r.calls(step)
	for _, call := range calls {
		state := callState(step, call.ID)
		if state == callDone {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if signal, over := r.overBudget(r.s.Execution(), false); over {
			signals = []session.Signal{signal}
			if err := r.result(step, call, tool.Result{Content: "not run: " + signal.Message, IsError: true}, true); err != nil {
				return err
			}
			continue
		}
		if err := r.carryOut(ctx, step, call, tools, state); err != nil {
			return err
		}
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

// carryOut brings one call to its result. A call that was running when the process
// ended runs again only if its tool says that this does no harm.
func (r *run) carryOut(ctx context.Context, step session.Step, call session.ToolCall, tools tool.Set, state stateOfCall) error {
	t, known := tools.Get(call.Name)
	if !known {
		return r.result(step, call, tool.Result{IsError: true, Content: fmt.Sprintf(
			"unknown tool %q; available: %s", call.Name, strings.Join(tools.Names(), ", "))}, false)
	}
	spec := t.Spec()
	if state == callStarted && spec.Nature == tool.Once {
		return r.result(step, call, tool.Result{Content: session.UnknownOutcome, IsError: true}, true)
	}
	if err := r.record(session.ToolStarted{StepID: step.ID, CallID: call.ID, ToolName: call.Name}); err != nil {
		return err
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.notify(Notice{Kind: ToolStarted, StepID: step.ID, StepNumber: step.Number, CallID: call.ID, Tool: call.Name})

	bounded, cancel := r.bound(ctx, r.s.Execution())
	defer cancel()
	if spec.Timeout > 0 {
		var stop context.CancelFunc
		bounded, stop = context.WithTimeout(bounded, spec.Timeout)
		defer stop()
	}
	result, err := invoke(bounded, t, tool.Call{ID: call.ID, SessionID: r.s.ID(), Arguments: call.Arguments})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err() // whether it took effect is decided on resume
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		result = tool.Result{Content: "stopped: it ran out of time", IsError: true}
	default:
		result = tool.Result{Content: err.Error(), IsError: true}
	}
	return r.result(step, call, result, false)
}

// invoke calls a tool and turns a panic into an error.
func invoke(ctx context.Context, t tool.Tool, c tool.Call) (result tool.Result, err error) {
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
	err := r.record(
		session.MessageAdded{Message: session.Message{
			ID: r.NewID(), Role: session.RoleTool, ExecutionID: r.s.Execution().ID, StepID: step.ID, Trace: true,
			ToolResult: &session.ToolResult{
				CallID: call.ID, ToolName: call.Name, Content: result.Content, IsError: result.IsError, Synthetic: synthetic,
			},
		}},
		session.ToolFinished{
			StepID: step.ID, CallID: call.ID, ToolName: call.Name, IsError: result.IsError, Synthetic: synthetic, ActiveSeconds: r.active(),
		},
	)
	if err != nil {
		return err
	}
	r.notify(Notice{Kind: ToolFinished, StepID: step.ID, StepNumber: step.Number, CallID: call.ID, Tool: call.Name, IsError: result.IsError})
	return nil
}
