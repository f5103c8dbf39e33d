package agui

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// interrupt is a call that waits for a person.
type interrupt struct {
	SubagentRunID  string          `json:"subagentRunId,omitempty"`
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ResponseSchema *responseSchema `json:"responseSchema,omitempty"`
	ExpiresAt      string          `json:"expiresAt,omitempty"`
	Metadata       *details        `json:"metadata,omitempty"`
}

// responseSchema says which payload responds to an interrupt.
type responseSchema struct {
	Type       string                    `json:"type"`
	Enum       []string                  `json:"enum,omitempty"`
	Properties map[string]responseSchema `json:"properties,omitempty"`
	Required   []string                  `json:"required,omitempty"`
}

// details are what a person should know to respond.
type details struct {
	Context string           `json:"context,omitempty"`
	Diff    string           `json:"diff,omitempty"`
	Choices []session.Choice `json:"choices,omitempty"`
}

// approvalPayload is the payload of a response to an approval. True and false
// are short for one without a choice.
type approvalPayload struct {
	Approved bool   `json:"approved"`
	Choice   string `json:"choice"`
	Reason   string `json:"reason"`
}

// waitingCall is a call that waits.
type waitingCall struct {
	session.PendingCall
	subagent string // the session that it waits in; empty: the thread's own
}

// interruptID names the call in a run of the thread.
func (c waitingCall) interruptID() string {
	if c.subagent != "" {
		return c.subagent + "/" + c.ID
	}
	return c.ID
}

// byClient reports whether the client carries the call out.
func (c waitingCall) byClient() bool {
	return c.Kind == session.PendingResult && c.ChildID == "" && c.subagent == ""
}

// waiting lists the calls that wait. In the place of a subagent that waits are
// the calls that it waits for.
func (x *exchange) waiting(s session.Session, subagent string) ([]waitingCall, error) {
	var all []waitingCall
	for _, p := range s.PendingCalls() {
		if !p.Waiting() {
			continue
		}
		var below []waitingCall
		if p.ChildID != "" {
			child, err := x.Settled(x.Request.Context(), p.ChildID)
			if err == nil && child.Waiting() {
				below, err = x.waiting(child, p.ChildID)
			}
			if err != nil && !errors.Is(err, session.ErrNotFound) {
				return nil, err
			}
		}
		if len(below) == 0 {
			below = []waitingCall{{p, subagent}}
		}
		all = append(all, below...)
	}
	return all, nil
}

// divide returns the interrupts, and the calls that the client carries out.
func divide(waits []waitingCall) (interrupts []interrupt, calls []string) {
	for _, c := range waits {
		if c.byClient() {
			calls = append(calls, c.CallID)
		} else {
			interrupts = append(interrupts, interruptOf(c))
		}
	}
	return interrupts, calls
}

func interruptOf(p waitingCall) interrupt {
	i := interrupt{ID: p.interruptID(), Message: p.Prompt, SubagentRunID: p.subagent}
	if p.subagent == "" { // the client does not have calls of others
		i.ToolCallID = p.CallID
	}
	if p.ExpiresAt != nil {
		i.ExpiresAt = p.ExpiresAt.UTC().Format(time.RFC3339)
	}
	if p.Context != "" || p.Diff != "" || len(p.Choices) > 0 {
		i.Metadata = &details{p.Context, p.Diff, p.Choices}
	}
	var choices []string
	for _, c := range p.Choices {
		choices = append(choices, c.Value)
	}
	switch {
	case p.ChildID != "":
		i.Reason, i.SubagentRunID, i.Message = "subagent", p.ChildID, "the session "+p.ChildID+" of a subagent has not come to its end"
	case p.Kind == session.PendingApproval:
		text := responseSchema{Type: "string"}
		i.Reason = "tool_call"
		i.ResponseSchema = &responseSchema{Type: "object", Required: []string{"approved"}, Properties: map[string]responseSchema{
			"approved": {Type: "boolean"}, "choice": {Type: "string", Enum: choices}, "reason": text,
		}}
	default:
		i.Reason, i.ResponseSchema = "input_required", &responseSchema{Type: "string", Enum: choices}
	}
	return i
}

// response is one that a request brings.
type response struct {
	session.Response
	subagent string // the session that it is for; empty: the thread's own
}

// responses returns what the request brings for the calls that wait: for all of
// them, or for none.
func (x *exchange) responses(s session.Session, fresh bool) ([]response, error) {
	waits, err := x.waiting(s, "")
	if err != nil {
		return nil, err
	}
	var responses []response
	var missing []string
	asked := false // a person must respond before anything else is said
	for _, p := range waits {
		r, brought, err := x.response(p)
		switch {
		case err != nil:
			return nil, err
		case brought:
			responses = append(responses, response{r, p.subagent})
		default:
			missing = append(missing, p.interruptID())
		}
		asked = asked || !p.byClient()
	}
	switch {
	case len(responses) > 0 && len(missing) > 0:
		return nil, protocol.Invalid("resume", "these calls wait too, and the run must respond to all: "+strings.Join(missing, ", "))
	case len(responses) > 0 && fresh:
		return nil, protocol.Invalid("messages", "a run that responds to calls takes no new message; send it in the next run")
	case asked && fresh:
		return nil, problem.New(409, "waiting", "the thread waits for responses to "+strings.Join(missing, ", ")+"; resume them first")
	}
	return responses, nil
}

// response returns what the request brings for a call.
func (x *exchange) response(p waitingCall) (r session.Response, brought bool, err error) {
	r = session.Response{PendingID: p.ID, Action: session.RespondResult}
	at := slices.IndexFunc(x.in.Resume, func(e resumeEntry) bool { return e.InterruptID == p.interruptID() })
	switch {
	case p.ChildID != "" && at >= 0:
		return r, false, protocol.Invalid("resume", "the call "+p.ID+" waits for the end of the session "+p.ChildID+" of a subagent, which waits for nobody")
	case p.byClient():
		m := x.in.result(p.CallID)
		if m == nil {
			return r, false, nil
		}
		if r.Text, err = m.resultText(); m.Error != "" {
			r.Text, r.IsError = m.Error, true
		}
		return r, true, err
	case at < 0:
		return r, false, nil
	}
	e := x.in.Resume[at]
	switch {
	case e.Status == "cancelled":
		r.Action = session.RespondDeny
	case e.Status != "resolved":
		return r, false, protocol.Invalid("resume", "the status "+e.Status+" is neither resolved nor cancelled")
	case p.Kind == session.PendingApproval:
		err = readApproval(e.Payload, &r)
	default:
		if p.Kind == session.PendingQuestion {
			r.Action = session.RespondAnswer
		}
		if json.Unmarshal(e.Payload, &r.Text) != nil {
			err = protocol.Invalid("resume", "the payload for "+p.interruptID()+" is not a text")
		}
	}
	if err == nil && p.Kind == session.PendingApproval {
		err = x.Permit(apikey.Approve)
	}
	if err == nil {
		err = p.Check(r)
	}
	return r, true, err
}

func readApproval(payload json.RawMessage, r *session.Response) error {
	var in approvalPayload
	if json.Unmarshal(payload, &in.Approved) != nil {
		var given struct {
			approvalPayload
			Approved *bool `json:"approved"`
		}
		if json.Unmarshal(payload, &given) != nil || given.Approved == nil {
			return protocol.Invalid("resume", "the payload for "+r.PendingID+" does not say whether it is approved")
		}
		in = given.approvalPayload
		in.Approved = *given.Approved
	}
	r.Action, r.Choice, r.Text = session.RespondDeny, in.Choice, in.Reason
	if in.Approved {
		r.Action, r.Text = session.RespondApprove, ""
	}
	return nil
}
