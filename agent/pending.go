package agent

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// What the model is told of calls that nobody carried out.
const (
	deniedText    = "not run: the user denied it"
	expiredText   = "not run: nobody responded in time"
	cancelledText = "not run: the user did something else instead of responding"
)

// remoteCall makes the pending call of a tool that a client or a person carries
// out.
func remoteCall(call Call) Admission {
	if call.Tool.Spec().Runner == tool.ByClient {
		return Admission{Pending: &session.PendingCall{Kind: session.PendingResult}}
	}
	var q tool.Question
	err := json.Unmarshal(call.Arguments, &q)
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		return refuse("not asked: " + err.Error())
	}
	p := &session.PendingCall{Kind: session.PendingQuestion, Prompt: q.Question}
	for _, option := range q.Options {
		p.Choices = append(p.Choices, session.Choice{Value: option})
	}
	return Admission{Pending: p}
}

// setPending records that a call waits.
func (r *run) setPending(step session.Step, call session.ToolCall, p session.PendingCall, more []session.Change) error {
	p.CallID, p.StepID, p.ExecutionID, p.Tool, p.Arguments = call.ID, step.ID, r.s.Execution().ID, call.Name, call.Arguments
	p.AskedAt = r.Now()
	if p.ID == "" {
		p.ID = r.NewID()
	}
	if p.ExpiresAt == nil && r.PendingTimeout > 0 {
		end := p.AskedAt.Add(r.PendingTimeout)
		p.ExpiresAt = &end
	}
	if err := r.record(append([]session.Change{session.CallPending{Call: p}}, more...)...); err != nil {
		return err
	}
	r.notify(Notice{Kind: CallPending, StepID: step.ID, StepNumber: step.Number, CallID: call.ID, Tool: call.Name})
	return nil
}

// waits reports calls without a response.
func (r *run) waits() bool {
	return slices.ContainsFunc(r.s.PendingCalls(), session.PendingCall.Waiting)
}

// wait ends the run: the execution waits and occupies no process.
func (r *run) wait() error {
	if err := r.record(session.ExecutionWaiting{ActiveSeconds: r.active()}); err != nil {
		return err
	}
	r.notify(Notice{Kind: ExecutionWaiting, Status: session.ExecutionWaits})
	return errWaits
}

// takeResponses applies the responses that have arrived, each with its result
// in one write, and ends the calls whose time is over.
func (r *run) takeResponses(ctx context.Context, step session.Step) error {
	if !r.waits() {
		return nil
	}
	if r.Inbox != nil {
		items, err := r.waiting(ctx)
		if err != nil {
			return err
		}
		for _, item := range items {
			if item.Response == nil {
				continue
			}
			taken := session.InboxTaken{ItemID: item.ID, ItemKind: item.Kind}
			p, known := r.s.PendingCall(item.Response.PendingID)
			if !known || !p.Waiting() || p.Check(*item.Response) != nil {
				err = r.record(taken) // its call is over
			} else {
				err = r.respond(ctx, step, p, *item.Response, taken)
			}
			if err != nil {
				return err
			}
		}
	}
	return r.endCalls(ctx, step, r.Now())
}

// endCalls ends the calls whose time is over, and all that wait where the loop
// settles.
func (r *run) endCalls(ctx context.Context, step session.Step, now time.Time) error {
	for _, p := range r.s.PendingCalls() {
		var end session.Response
		switch {
		case !p.Waiting():
			continue
		case r.settling:
			end = session.Response{PendingID: p.ID, Action: session.RespondCancel}
		case p.Expired(now):
			end = session.Response{PendingID: p.ID, Action: session.RespondExpire}
		default:
			continue
		}
		if err := r.respond(ctx, step, p, end); err != nil {
			return err
		}
	}
	return nil
}

// respond applies a response. An approved call runs afterwards; any other has
// its result at once.
func (r *run) respond(ctx context.Context, step session.Step, p session.PendingCall, response session.Response, before ...session.Change) error {
	changes := append(before, session.CallResponded{Response: response})
	if r.Gate != nil {
		more, err := r.Gate.Responded(ctx, r.s, p, response)
		if err != nil {
			return err
		}
		changes = append(changes, more...)
	}
	if err := r.record(changes...); err != nil {
		return err
	}
	if response.Action == session.RespondApprove {
		return nil
	}
	result, synthetic := resultOf(p, response)
	result.ChildSessionID, result.Spent = p.ChildID, response.Spent
	return r.recordResult(step, session.ToolCall{ID: p.CallID, Name: p.Tool, Arguments: p.Arguments}, result, synthetic)
}

// resultOf returns the result that a response gives a call.
func resultOf(p session.PendingCall, r session.Response) (result tool.Result, synthetic bool) {
	switch r.Action {
	case session.RespondAnswer, session.RespondResult:
		return tool.Result{Content: r.Text, IsError: r.IsError}, false
	case session.RespondDeny:
		text := deniedText
		if r.Text != "" {
			text += ": " + r.Text
		}
		return tool.Result{Content: text, IsError: true}, false
	case session.RespondExpire:
		if p.Default != nil {
			return tool.Result{Content: *p.Default}, true
		}
		return tool.Result{Content: expiredText, IsError: true}, true
	}
	return tool.Result{Content: cancelledText, IsError: true}, true
}
