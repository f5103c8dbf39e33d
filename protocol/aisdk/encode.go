package aisdk

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// chunk is one piece of a stream: the fields that its type has are set. Clients
// refuse others.
type chunk struct {
	Type             string          `json:"type"`
	MessageID        string          `json:"messageId,omitempty"`
	ID               string          `json:"id,omitempty"`
	Delta            string          `json:"delta,omitempty"`
	ErrorText        string          `json:"errorText,omitempty"`
	ToolCallID       string          `json:"toolCallId,omitempty"`
	ToolName         string          `json:"toolName,omitempty"`
	Input            json.RawMessage `json:"input,omitempty"`
	Output           *string         `json:"output,omitempty"`
	ProviderExecuted bool            `json:"providerExecuted,omitempty"`
	ApprovalID       string          `json:"approvalId,omitempty"`
	Data             *approval       `json:"data,omitempty"`
}

// approval is what clients that know no approvals get as data.
type approval struct {
	PendingID string          `json:"pendingId"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// encoder turns the steps of a turn into chunks.
type encoder struct {
	version int // of the client
	write   func(chunk) bool
	gone    bool

	step0   string // the step that is shown
	texts   protocol.Texts
	calls   map[string]bool // whose input was sent, by call
	failure string
}

func newEncoder(version int, write func(chunk) bool) *encoder {
	return &encoder{version: version, write: write, texts: protocol.Texts{}, calls: map[string]bool{}}
}

func (e *encoder) send(c chunk) {
	if !e.gone {
		e.gone = !e.write(c)
	}
}

// step takes one step of the turn in. It reports whether the reader is there.
func (e *encoder) step(s protocol.Step) bool {
	for _, c := range s.Changes {
		e.show(c)
	}
	if s.End {
		e.finishStep()
		if f, ok := s.Record.Change.(session.ExecutionFinished); ok && f.Status == session.ExecutionFailed {
			if e.failure == "" {
				e.failure = "the model failed"
			}
			e.send(chunk{Type: "error", ErrorText: e.failure})
		}
		e.send(chunk{Type: "finish"})
	}
	return !e.gone
}

func (e *encoder) show(c projector.Change) {
	i := c.Item
	switch {
	case i.Unit != "":
	case i.Message != nil && i.Message.Role == session.RoleAssistant:
		e.said(c, "text", i.Message.Text)
	case i.Reasoning != nil:
		e.said(c, "reasoning", i.Reasoning.Text)
	case i.Pending != nil && c.Op == projector.Added:
		e.asked(i)
	case i.Call != nil:
		e.called(c)
	case i.Status != nil && len(i.Status.Errors) > 0:
		e.failure = i.Status.Errors[len(i.Status.Errors)-1].Message
	}
}

// startStep shows that the model was asked again.
func (e *encoder) startStep(id string) {
	if e.step0 == id || id == "" {
		return
	}
	e.finishStep()
	e.step0 = id
	e.send(chunk{Type: "start-step"})
}

func (e *encoder) finishStep() {
	if e.step0 != "" {
		e.step0 = ""
		e.send(chunk{Type: "finish-step"})
	}
}

// said shows text or reasoning, as it grows or whole.
func (e *encoder) said(c projector.Change, kind, text string) {
	id := strings.ReplaceAll(c.Item.ID, "/", "_")
	piece, open, ends := e.texts.Next(c, text)
	if !open {
		return
	}
	if c.Op == projector.Added {
		e.startStep(c.Item.StepID)
		e.send(chunk{Type: kind + "-start", ID: id})
	}
	if piece != "" {
		e.send(chunk{Type: kind + "-delta", ID: id, Delta: piece})
	}
	if ends {
		e.send(chunk{Type: kind + "-end", ID: id})
	}
	if c.Op == projector.Withdrawn && e.version >= 7 {
		e.send(chunk{Type: "reset-step"})
	}
}

// input shows a call with its arguments.
func (e *encoder) input(step, callID, name string, arguments json.RawMessage, byServer bool) {
	if e.calls[callID] {
		return
	}
	e.calls[callID] = true
	e.startStep(step)
	e.send(chunk{Type: "tool-input-available", ToolCallID: callID, ToolName: name, Input: arguments, ProviderExecuted: byServer})
}

// asked shows a call that waits: for a result of the client, or for an approval.
func (e *encoder) asked(i projector.Item) {
	p := i.Pending.PendingCall
	e.input(p.StepID, p.CallID, p.Tool, p.Arguments, false)
	switch {
	case p.Kind != session.PendingApproval:
	case e.version >= 6:
		e.send(chunk{Type: "tool-approval-request", ApprovalID: p.ID, ToolCallID: p.CallID})
	default:
		e.send(chunk{Type: "data-approval", ID: p.ID, Data: &approval{p.ID, p.Tool, p.Arguments}})
	}
}

// called shows a tool that the server ran. One that was approved in an earlier
// turn has its input there.
func (e *encoder) called(c projector.Change) {
	call := c.Item.Call
	if call.StartedAt == nil {
		return
	}
	if call.Arguments != nil {
		e.input(c.Item.StepID, call.CallID, call.Name, call.Arguments, true)
	}
	if c.Op != projector.Finished || call.Result == nil {
		return
	}
	if call.Result.IsError {
		e.send(chunk{Type: "tool-output-error", ToolCallID: call.CallID, ErrorText: call.Result.Content})
		return
	}
	output := call.Result.Content
	e.send(chunk{Type: "tool-output-available", ToolCallID: call.CallID, Output: &output})
}
