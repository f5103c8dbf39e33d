package session_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

// called is a session whose model has asked for tools in one step.
func called(t *testing.T, calls ...string) session.Session {
	t.Helper()
	s := newSession(t)
	var list []session.ToolCall
	for _, id := range calls {
		list = append(list, session.ToolCall{ID: id, Name: "shell", Arguments: json.RawMessage(`{}`)})
	}
	return apply(t, s,
		session.ExecutionStarted{ExecutionID: "e"}, session.InferenceAnswered{StepID: "step"},
		session.MessageAdded{Message: session.Message{ID: "m", Role: session.RoleAssistant, StepID: "step", ExecutionID: "e", ToolCalls: list}})
}

func asks(id string) session.CallPending {
	return session.CallPending{Call: session.PendingCall{ID: "p-" + id, Kind: session.PendingApproval, CallID: id, StepID: "step"}}
}

func TestPending_waitsUntilTheFirstResponse(t *testing.T) {
	s := apply(t, called(t, "a", "b"), asks("a"), asks("b"), session.ExecutionWaiting{})
	if !s.Waiting() || !s.Running() || s.Info().Pending != 2 || len(s.PendingCalls()) != 2 {
		t.Fatalf("waiting %t, running %t, %d pending", s.Waiting(), s.Running(), s.Info().Pending)
	}
	s = apply(t, s, session.CallResponded{Response: session.Response{PendingID: "p-a", Action: session.RespondDeny}})
	if _, there := s.PendingCall("a"); there || s.Info().Pending != 1 {
		t.Errorf("a denied call is still pending: %+v", s.PendingCalls())
	}
	_, err := s.With(at(9), session.CallResponded{Response: session.Response{PendingID: "p-a", Action: session.RespondApprove}})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a second response: %v", err)
	}
	s = apply(t, s, session.CallResponded{Response: session.Response{PendingID: "p-b", Action: session.RespondApprove, By: "ann"}})
	if p, there := s.PendingCall("b"); !there || p.Waiting() || p.Response.By != "ann" || s.Info().Pending != 0 {
		t.Errorf("an approved call: %+v", p)
	}
	s = apply(t, s, session.ExecutionContinued{}, session.ToolStarted{StepID: "step", CallID: "b"})
	if _, there := s.PendingCall("b"); !there {
		t.Error("an approval is forgotten before the call has its result")
	}
	s = apply(t, s, session.ToolFinished{StepID: "step", CallID: "b"})
	if len(s.PendingCalls()) != 0 || s.Waiting() {
		t.Errorf("left: %+v", s.PendingCalls())
	}
}

func TestPending_endsWithItsExecutionAndIsNotInherited(t *testing.T) {
	waiting := apply(t, called(t, "a"), asks("a"), session.ExecutionWaiting{})
	ended := apply(t, waiting, session.ExecutionFinished{Status: session.ExecutionStopped})
	if ended.Info().Pending != 0 || len(ended.PendingCalls()) != 0 {
		t.Errorf("after the end: %+v", ended.PendingCalls())
	}
	if _, err := ended.With(at(9), asks("b")); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a pending call without an execution: %v", err)
	}
	cleared := apply(t, waiting, session.TranscriptCleared{})
	if cleared.Info().Pending != 0 {
		t.Error("a cleared session still waits")
	}
}

func TestPendingCall_Check(t *testing.T) {
	question := session.PendingCall{ID: "q", Kind: session.PendingQuestion, Choices: []session.Choice{{Value: "red"}, {Value: "blue"}}}
	approval := session.PendingCall{Kind: session.PendingApproval, Choices: []session.Choice{
		{Value: "deny_once"}, {Value: "allow_once"}, {Value: "never", Rule: &session.Rule{Effect: session.EffectDeny}}, {Value: "mine"},
	}}
	for name, c := range map[string]struct {
		call session.PendingCall
		r    session.Response
		ok   bool
	}{
		"approve an approval":     {session.PendingCall{Kind: session.PendingApproval}, session.Response{Action: session.RespondApprove}, true},
		"deny an approval":        {session.PendingCall{Kind: session.PendingApproval}, session.Response{Action: session.RespondDeny}, true},
		"answer an approval":      {session.PendingCall{Kind: session.PendingApproval}, session.Response{Action: session.RespondAnswer, Text: "x"}, false},
		"a choice nobody offered": {session.PendingCall{Kind: session.PendingApproval}, session.Response{Action: session.RespondApprove, Choice: "always"}, false},
		"a choice that approves":  {approval, session.Response{Action: session.RespondApprove, Choice: "allow_once"}, true},
		"approve by a denial":     {approval, session.Response{Action: session.RespondApprove, Choice: "deny_once"}, false},
		"approve by a deny rule":  {approval, session.Response{Action: session.RespondApprove, Choice: "never"}, false},
		"deny by a deny rule":     {approval, session.Response{Action: session.RespondDeny, Choice: "never"}, true},
		"deny by an approval":     {approval, session.Response{Action: session.RespondDeny, Choice: "allow_once"}, false},
		"a choice of one's own":   {approval, session.Response{Action: session.RespondApprove, Choice: "mine"}, true},
		"an offered answer":       {question, session.Response{Action: session.RespondAnswer, Text: "red"}, true},
		"another answer":          {question, session.Response{Action: session.RespondAnswer, Text: "green"}, false},
		"no answer":               {session.PendingCall{Kind: session.PendingQuestion}, session.Response{Action: session.RespondAnswer}, false},
		"approve a question":      {question, session.Response{Action: session.RespondApprove}, false},
		"a client's result":       {session.PendingCall{Kind: session.PendingResult}, session.Response{Action: session.RespondResult}, true},
	} {
		if err := c.call.Check(c.r); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
