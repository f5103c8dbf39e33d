package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	inputTool   = "request_user_input"
	inputReason = "user_input" // of a row that waits for what a person has to say

	// actionAnswered is the action of an approval that was a question.
	actionAnswered = "answered"
)

// InputRequest is a question that an agent has for a person.
type InputRequest struct {
	Question string   `json:"question" jsonschema:"what the user is asked, in full: nothing else is shown"`
	Options  []string `json:"options,omitempty" jsonschema:"the answers to choose from; leave them out where any text will do"`
}

// inputDetails is what the approval of a question keeps beside the record.
type inputDetails struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Answer string          `json:"answer,omitempty"`
}

// InputOf is the question that an approval asks. Ok is false for an approval
// that asks for a permission: Respond answers that, Answer this.
func InputOf(a session.Approval) (q InputRequest, ok bool) {
	d := inputDetailsOf(a)
	if d.Tool != inputTool || json.Unmarshal(d.Input, &q) != nil {
		return InputRequest{}, false
	}
	return q, true
}

func inputDetailsOf(a session.Approval) (d inputDetails) {
	_ = json.Unmarshal(a.Details, &d) // details that cannot be read are no question's
	return d
}

// check refuses a question that cannot be answered.
func (q InputRequest) check() error {
	if strings.TrimSpace(q.Question) == "" {
		return errors.New("the question is empty")
	}
	if slices.ContainsFunc(q.Options, func(o string) bool { return strings.TrimSpace(o) == "" }) {
		return errors.New("an option is empty")
	}
	return nil
}

// takes refuses a text that is no answer to the question.
func (q InputRequest) takes(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return &session.InvalidError{Field: "answer", Reason: "is empty"}
	case len(q.Options) > 0 && !slices.Contains(q.Options, text):
		return &session.InvalidError{Field: "answer", Reason: fmt.Sprintf("%q is none of: %s", text, strings.Join(q.Options, ", "))}
	}
	return nil
}

// inputMode reports a mode in which an agent may ask. One that chats just says
// what it wants to know.
func inputMode(mode string) bool { return mode != "chat" }

// newInputTool is what the model is shown. A call of it is never run: a person
// has its result.
func newInputTool() Tool {
	t, err := tool.Func(tool.Spec{
		Name: inputTool,
		Description: "Ask the user something that you cannot find out and cannot decide yourself. " +
			"The work rests until the answer is there, which may take long: ask once, for all you need to know.",
	}, func(context.Context, InputRequest) (string, error) { return "", errors.New("only a person answers it") })
	if err != nil {
		panic("task: " + err.Error()) // its arguments are a struct
	}
	return Tool{Tool: t, Effects: permission.Read}
}

// waits reports a row that rests until something is answered.
func waits(row session.TaskRow) bool {
	return row.Status == Blocked || row.Status == Paused && row.AwaitingUserInputReasonCode == inputReason
}

// askInput writes a question down: the record and that the task is paused are
// one write. Nothing waits in memory.
func (r *Run) askInput(ctx context.Context, call session.ToolCall) (*refusal, StopReason, error) {
	if asked, ok := approvalFor(r.state().Approvals, call.ID); ok {
		switch asked.Status {
		case approvalPending:
			return nil, StopUserInput, nil
		case approvalApproved: // elsewhere: here the answer and the result are one write
			return &refusal{Result: tool.Result{Content: inputDetailsOf(asked).Answer}, known: true}, "", nil
		}
		return refuse("not answered: the question is " + asked.Status), "", nil
	}
	var q InputRequest
	err := json.Unmarshal(call.Arguments, &q)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		return refuse("not asked: " + err.Error()), "", nil
	}
	now := millis(r.x.c.Clock())
	a := session.Approval{
		ID: r.x.c.NewID(), TaskID: r.ID(), CallID: call.ID, Type: "tool", Description: q.Question,
		Details: raw(inputDetails{Tool: call.Name, Input: call.Arguments}),
		Status:  approvalPending, RequestedAt: now,
	}
	if r.x.c.ApprovalTimeout > 0 {
		a.ExpiresAt = now + r.x.c.ApprovalTimeout.Milliseconds()
	}
	return nil, StopUserInput, r.append(ctx, move{
		changes: []session.Change{event("approval_requested", map[string]any{"approval": a})},
		row: func(row *session.TaskRow) {
			row.Status, row.TerminalStatus, row.AwaitingUserInputReasonCode = Paused, TerminalNeedsUser, inputReason
		},
	})
}

// Answer answers a question of the agent, from any process. The first answer
// counts: the same text again is a duplicate, another one an
// ApprovalResolvedError. The text is the result of the recorded call, once,
// and the task goes on until it comes to rest again. A text that the question
// does not take is refused, with the question as it was.
func (x *Executor) Answer(ctx context.Context, id, approvalID, text, by string) (Reply, error) {
	s, err := x.load(ctx, id)
	if err != nil {
		return Reply{}, err
	}
	a, err := x.answerable(s, approvalID)
	if err != nil {
		return x.replied(ctx, id, ReplyNotFound, err)
	}
	q, ok := InputOf(a)
	if !ok {
		return x.replied(ctx, id, "", &session.InvalidError{Field: "approval", Reason: "it asks for a permission: approve or deny it"})
	}
	said := answer{ApprovalID: approvalID, Action: actionAnswered, Text: text, By: by, Mark: x.c.NewID(), At: millis(x.c.Clock())}
	if a.Status != approvalPending {
		return x.answeredBefore(ctx, id, a, said)
	}
	if overdue(a, said.At) {
		return x.answeredLate(ctx, id, approvalID)
	}
	if err := q.takes(text); err != nil {
		return x.replied(ctx, id, "", err)
	}
	first, err := x.post(ctx, id, said)
	if err != nil {
		return Reply{}, err
	}
	if first != nil { // somebody else was faster
		return x.answeredBefore(ctx, id, *first, said)
	}
	return x.carryAnswer(ctx, id, approvalID, RespondOptions{})
}

// takeInput has the answer to a question take effect: that it was answered and
// the result of the call are one write.
func (x *Executor) takeInput(ctx context.Context, r *Run, taken session.InboxTaken, a session.Approval, said answer) error {
	a.ResolvedAt = millis(x.c.Clock())
	name := said.resolve(&a)
	m := move{changes: []session.Change{taken, event(name, map[string]any{"approval": a})}}
	if call, stepID, open := r.openCall(a.CallID); open {
		c := running{call: call, tool: newInputTool(), result: tool.Result{Content: said.Text}}
		m = m.and(starting([]running{c})).and(r.ending(stepID, c))
	}
	return r.seal(ctx, "task.approval", m)
}
