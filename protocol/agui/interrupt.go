package agui

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
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

// waiting lists the calls that wait: interrupts, and those that the client
// carries out.
func waiting(s session.Session) (interrupts []interrupt, calls []string) {
	for _, p := range s.PendingCalls() {
		switch {
		case !p.Waiting():
		case p.Kind == session.PendingResult && p.ChildID == "":
			calls = append(calls, p.CallID)
		default:
			interrupts = append(interrupts, interruptOf(p))
		}
	}
	return interrupts, calls
}

func interruptOf(p session.PendingCall) interrupt {
	i := interrupt{ID: p.ID, Message: p.Prompt, ToolCallID: p.CallID}
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
		i.Reason, i.SubagentRunID, i.Message = "subagent", p.ChildID, "the session "+p.ChildID+" of a subagent waits for a response"
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

// responses returns what the request brings for the calls that wait: for all of
// them, or for none.
func (x *exchange) responses(s session.Session, fresh bool) ([]session.Response, error) {
	var responses []session.Response
	var missing []string
	asked := false // a person must respond before anything else is said
	for _, p := range s.PendingCalls() {
		if !p.Waiting() {
			continue
		}
		r, brought, err := x.response(p)
		switch {
		case err != nil:
			return nil, err
		case brought:
			responses = append(responses, r)
		default:
			missing = append(missing, p.ID)
		}
		asked = asked || p.Kind != session.PendingResult || p.ChildID != ""
	}
	switch {
	case len(responses) > 0 && len(missing) > 0:
		return nil, invalid("resume", "these calls wait too, and the run must respond to all: "+strings.Join(missing, ", "))
	case len(responses) > 0 && fresh:
		return nil, invalid("messages", "a run that responds to calls takes no new message; send it in the next run")
	case asked && fresh:
		return nil, problem.New(409, "waiting", "the thread waits for responses to "+strings.Join(missing, ", ")+"; resume them first")
	}
	return responses, nil
}

// response returns what the request brings for a call.
func (x *exchange) response(p session.PendingCall) (r session.Response, brought bool, err error) {
	r = session.Response{PendingID: p.ID, Action: session.RespondResult}
	at := slices.IndexFunc(x.in.Resume, func(e resumeEntry) bool { return e.InterruptID == p.ID })
	switch {
	case p.ChildID != "" && at >= 0:
		return r, false, invalid("resume", "the call "+p.ID+" waits for the session "+p.ChildID+" of a subagent: respond there")
	case p.Kind == session.PendingResult && p.ChildID == "":
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
		return r, false, invalid("resume", "the status "+e.Status+" is neither resolved nor cancelled")
	case p.Kind == session.PendingApproval:
		err = readApproval(e.Payload, &r)
	default:
		r.Action = session.RespondAnswer
		if json.Unmarshal(e.Payload, &r.Text) != nil {
			err = invalid("resume", "the payload for "+p.ID+" is not a text")
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
			return invalid("resume", "the payload for "+r.PendingID+" does not say whether it is approved")
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
