package acp

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// waitingCalls lists the calls of a session that wait.
func waitingCalls(s session.Session) []session.PendingCall {
	return slices.DeleteFunc(s.PendingCalls(), func(c session.PendingCall) bool { return !c.Waiting() })
}

// ask asks the person at the editor about every call that waits in a session,
// those of its subagents included. It returns false where one was left.
func (t *thread) ask(ctx context.Context, id string) (answered bool, err error) {
	s, err := t.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		return false, err
	}
	for _, call := range waitingCalls(s) {
		if call.ChildID != "" {
			if answered, err := t.ask(ctx, call.ChildID); err != nil || !answered {
				return false, err
			}
			if _, err := t.Execute(ctx, call.ChildID, holdfast.ContinueExecution{}); err != nil {
				return false, err
			}
			continue
		}
		r, answered, err := t.askOne(ctx, call)
		if err != nil || !answered {
			return false, err
		}
		if err := t.Respond(ctx, id, r); err != nil && !errors.Is(err, session.ErrResponded) { // somebody else was faster
			return false, err
		}
	}
	return true, nil
}

// askOne asks about one call. A question to an editor without forms is said
// instead, and the next prompt answers it.
func (t *thread) askOne(ctx context.Context, call session.PendingCall) (session.Response, bool, error) {
	switch {
	case call.Kind == session.PendingApproval:
		return t.askPermission(ctx, call)
	case call.Kind == session.PendingQuestion && t.s.hasForms():
		return t.askQuestion(ctx, call)
	case call.Kind == session.PendingQuestion:
		return session.Response{}, false, t.say(questionText(call))
	}
	return session.Response{}, false, t.say("This session waits for the result of " + call.Tool + ", which another program runs.")
}

// The choices of an approval that has none.
var plainChoices = []session.Choice{{Value: "allow_once", Label: "Allow once"}, {Value: "deny_once", Label: "Deny"}}

// askPermission asks for an approval. Each choice has its own option; one with
// a rule is for always.
func (t *thread) askPermission(ctx context.Context, call session.PendingCall) (session.Response, bool, error) {
	in := permissionRequest{SessionID: t.id, ToolCall: t.describe(cmp.Or(call.CallID, call.ID), call.Tool, call.Arguments)}
	in.ToolCall.Status = "pending"
	for _, text := range []string{call.Prompt, call.Context} {
		if text != "" {
			why := textBlock(text)
			in.ToolCall.Content = append(in.ToolCall.Content, toolContent{Type: "content", Content: &why})
		}
	}
	choices := slices.DeleteFunc(slices.Clone(call.Choices), func(c session.Choice) bool { return c.Action() == "" })
	if len(choices) == 0 {
		choices = plainChoices
	}
	for _, c := range choices {
		kind := map[session.ResponseAction]string{session.RespondApprove: "allow", session.RespondDeny: "reject"}[c.Action()]
		if kind += "_once"; c.Rule != nil {
			kind = strings.TrimSuffix(kind, "_once") + "_always"
		}
		in.Options = append(in.Options, permissionOption{ID: c.Value, Name: cmp.Or(c.Label, c.Value), Kind: kind})
	}
	var out permissionResponse
	if err := t.s.conn.call(ctx, "session/request_permission", in, &out); err != nil {
		return session.Response{}, false, err
	}
	i := slices.IndexFunc(choices, func(c session.Choice) bool { return c.Value == out.Outcome.OptionID })
	if out.Outcome.Outcome != "selected" || i < 0 {
		return session.Response{}, false, nil
	}
	r := session.Response{PendingID: call.ID, Action: choices[i].Action()}
	if len(call.Choices) > 0 {
		r.Choice = choices[i].Value
	}
	return r, true, nil
}

// hasForms reports whether the editor can ask a person to fill in a form.
func (s *server) hasForms() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.Elicitation != nil && s.client.Elicitation.Form != nil
}

// answerField is the one field of a form.
const answerField = "answer"

// askQuestion asks a question by a form.
func (t *thread) askQuestion(ctx context.Context, call session.PendingCall) (session.Response, bool, error) {
	field := formField{Type: "string", Title: "Answer"}
	for _, c := range call.Choices {
		field.OneOf = append(field.OneOf, formChoice{Const: c.Value, Title: cmp.Or(c.Label, c.Value)})
	}
	in := elicitationRequest{
		SessionID: t.id, Mode: "form", Message: call.Prompt,
		RequestedSchema: formSchema{Type: "object", Properties: map[string]formField{answerField: field}, Required: []string{answerField}},
	}
	var out elicitationResponse
	if err := t.s.conn.call(ctx, "elicitation/create", in, &out); err != nil {
		return session.Response{}, false, err
	}
	r := session.Response{PendingID: call.ID}
	switch out.Action {
	case "accept":
		r.Action, r.Text = session.RespondAnswer, out.Content[answerField]
		return r, true, call.Check(r)
	case "decline":
		r.Action = session.RespondDeny
		return r, true, nil
	}
	return r, false, nil
}

// questionText is a question with its choices.
func questionText(call session.PendingCall) string {
	text := call.Prompt
	for _, c := range call.Choices {
		text += "\n- " + cmp.Or(c.Label, c.Value)
		if c.Label != "" && c.Label != c.Value {
			text += " (" + c.Value + ")"
		}
	}
	return text
}
