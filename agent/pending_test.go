package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// askAll is a gate that has every call approved, except where a guardrail
// forbids it.
type askAll struct {
	forbidden bool
	asked     []string
	kept      []session.Response
}

func (g *askAll) Admit(_ context.Context, _ session.Session, call agent.Call) (agent.Admission, error) {
	g.asked = append(g.asked, call.ID)
	switch {
	case call.Approved == nil:
		return agent.Admission{Pending: &session.PendingCall{ID: "p-" + call.ID, Kind: session.PendingApproval, Prompt: "run it?"}}, nil
	case g.forbidden:
		return agent.Admission{Refusal: &tool.Result{Content: "forbidden", IsError: true}}, nil
	}
	return agent.Admission{}, nil
}

func (g *askAll) Responded(_ context.Context, _ session.Session, _ session.PendingCall, r session.Response) ([]session.Change, error) {
	g.kept = append(g.kept, r)
	return []session.Change{session.MetadataWritten{Key: "kept", Value: json.RawMessage(`true`)}}, nil
}

func (r *rig) respond(response session.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inbox = append(r.inbox, agent.Incoming{ID: "response:" + response.PendingID, Kind: "response", Response: &response})
}

// waiting runs a session until it waits, writes the end of the run and returns
// what the journal has.
func (r *rig) waiting(s session.Session) session.Session {
	r.t.Helper()
	s = r.run(s)
	if !s.Waiting() {
		r.t.Fatalf("the execution is %s, not waiting", s.Execution().Status)
	}
	if _, err := r.Append(r.t.Context(), s); err != nil {
		r.t.Fatal(err)
	}
	return r.reload()
}

// resume continues a waiting session from what is durable.
func (r *rig) resume() session.Session {
	r.t.Helper()
	s, err := r.reload().With(r.now, session.ExecutionContinued{})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.run(s)
}

func asksFor(names ...string) []scripted.Reply {
	var calls []session.ToolCall
	for _, name := range names {
		calls = append(calls, call("call-"+name, name))
	}
	return []scripted.Reply{{ToolCalls: calls}, {Text: "done"}}
}

func results(s session.Session) map[string]string {
	found := map[string]string{}
	for _, m := range s.Messages() {
		if m.ToolResult != nil {
			found[m.ToolResult.CallID] = m.ToolResult.Content
		}
	}
	return found
}

func TestPending_anApprovedCallRunsOnceAfterTheResponse(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(asksFor("work")...), work)
	gate := &askAll{}
	r.config.Gate = gate
	s := r.waiting(r.begin(nil))
	p := s.PendingCalls()
	if len(p) != 1 || p[0].CallID != "call-work" || p[0].Tool != "work" || p[0].Prompt != "run it?" || len(work.runs) != 0 {
		t.Fatalf("pending %+v, runs %v", p, work.runs)
	}
	r.respond(session.Response{PendingID: p[0].ID, Action: session.RespondApprove, By: "ann"})
	s = r.resume()
	if s.Reply() != "done" || work.runs["call-work"] != 1 || len(gate.kept) != 1 || s.Metadata().String("kept") != "" && !slices.Contains(r.taken, "response:p-call-work") {
		t.Errorf("reply %q, runs %v, kept %v", s.Reply(), work.runs, gate.kept)
	}
	if len(s.PendingCalls()) != 0 || s.Execution().Status != session.ExecutionCompleted {
		t.Errorf("left %v, status %s", s.PendingCalls(), s.Execution().Status)
	}
}

func TestPending_aDeniedCallIsAResultForTheModel(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(asksFor("work")...), work)
	r.config.Gate = &askAll{}
	p := r.waiting(r.begin(nil)).PendingCalls()[0]
	r.respond(session.Response{PendingID: p.ID, Action: session.RespondDeny, Text: "too dangerous"})
	s := r.resume()
	if got := results(s)["call-work"]; got != "not run: the user denied it: too dangerous" || len(work.runs) != 0 {
		t.Errorf("result %q, runs %v", got, work.runs)
	}
}

func TestPending_whatNobodyMayAllowIsRefusedAfterAnApproval(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(asksFor("work")...), work)
	r.config.Gate = &askAll{forbidden: true}
	p := r.waiting(r.begin(nil)).PendingCalls()[0]
	r.respond(session.Response{PendingID: p.ID, Action: session.RespondApprove})
	if s := r.resume(); results(s)["call-work"] != "forbidden" || len(work.runs) != 0 {
		t.Errorf("results %v, runs %v", results(s), work.runs)
	}
}

func TestPending_clientsAndPeopleGiveResults(t *testing.T) {
	work := &counter{name: "work"}
	ask, client := tool.AskPerson(), tool.Client(session.ClientTool{Name: "browser"})
	model := scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{
		{ID: "q", Name: tool.AskPersonName, Arguments: json.RawMessage(`{"question":"Which?","options":["red","blue"]}`)},
		call("w", "work"),
		call("c", "browser"),
	}}, scripted.Reply{Text: "done"})
	r := newRig(t, model, ask, client, work)
	s := r.waiting(r.begin(nil))
	if p := s.PendingCalls(); len(p) != 2 || p[0].Kind != session.PendingQuestion || len(p[0].Choices) != 2 || p[1].Kind != session.PendingResult {
		t.Fatalf("pending %+v", p)
	}
	if len(work.runs) != 0 {
		t.Error("a tool that may not run beside others ran before the call that comes first")
	}
	first, second := s.PendingCalls()[0], s.PendingCalls()[1]
	r.respond(session.Response{PendingID: second.ID, Action: session.RespondResult, Text: "clicked"})
	r.respond(session.Response{PendingID: first.ID, Action: session.RespondAnswer, Text: "green"}) // not offered
	if s = r.resume(); !s.Waiting() || results(s)["c"] != "clicked" || results(s)["q"] != "" {
		t.Fatalf("waiting %t, results %v", s.Waiting(), results(s))
	}
	if _, err := r.Append(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	r.respond(session.Response{PendingID: first.ID, Action: session.RespondAnswer, Text: "blue"})
	s = r.resume()
	if got := results(s); got["q"] != "blue" || work.runs["w"] != 1 || s.Reply() != "done" {
		t.Errorf("results %v, runs %v, reply %q", got, work.runs, s.Reply())
	}
	if err := session.ValidTranscript(session.Sendable(s.Messages())); err != nil {
		t.Error(err)
	}
}

func TestPending_expiresWithItsDefault(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(asksFor("work")...), work)
	r.config.Gate, r.config.PendingTimeout = &askAll{}, time.Minute
	r.waiting(r.begin(nil))
	r.now = r.now.Add(time.Hour)
	if s := r.resume(); results(s)["call-work"] != "not run: nobody responded in time" || s.Reply() != "done" {
		t.Errorf("results %v, reply %q", results(s), s.Reply())
	}
}

func TestPending_settlingCancelsWhatWaits(t *testing.T) {
	work := &counter{name: "work"}
	r := newRig(t, scripted.New(asksFor("work")...), work)
	r.config.Gate = &askAll{}
	r.waiting(r.begin(nil))
	s, err := r.reload().With(r.now, session.ExecutionContinued{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = (agent.Loop{}).Settle(t.Context(), r.config, s); err != nil {
		t.Fatal(err)
	}
	if got := results(s)["call-work"]; got == "" || len(s.PendingCalls()) != 0 {
		t.Errorf("result %q, pending %v", got, s.PendingCalls())
	}
}

// The journal breaks at every write; what comes of it is the same as without.
func TestPending_everyCrashEndsAlike(t *testing.T) {
	for at := 1; ; at++ {
		work := &counter{name: "work"}
		model := scripted.New(asksFor("work")...)
		r := newRig(t, model, work)
		r.config.Gate = &askAll{}
		s := r.begin(nil)
		r.breakAt = r.writes + at
		broken := false
		for range 10 {
			next, err := (agent.Loop{}).Run(t.Context(), r.config, s)
			if err == nil && next.Waiting() {
				if next, err = r.Append(t.Context(), next); err == nil {
					r.respond(session.Response{PendingID: next.PendingCalls()[0].ID, Action: session.RespondApprove})
					next, err = next.With(r.now, session.ExecutionContinued{})
				}
			}
			if errors.Is(err, errCrash) {
				broken = true
				next = r.reload()
			} else if err != nil {
				t.Fatal(err)
			}
			if s = next; !s.Running() {
				break
			}
		}
		if s.Reply() != "done" || work.runs["call-work"] > 1 || work.runs["call-work"] == 0 && results(s)["call-work"] != session.UnknownOutcome {
			t.Errorf("broken at write %d: reply %q, runs %v, results %v", at, s.Reply(), work.runs, results(s))
		}
		if !broken {
			break
		}
	}
}

func TestRun_callIDsAreUniqueInTheSession(t *testing.T) {
	work := &counter{name: "work"}
	reply := scripted.Reply{ToolCalls: []session.ToolCall{call("same", "work")}}
	var streamed []string
	r := newRig(t, scripted.New(reply, reply, scripted.Reply{Text: "done"}), work)
	r.config.Stream = func(d llm.Delta) {
		if d.ToolCall != nil {
			streamed = append(streamed, d.ToolCall.ID)
		}
	}
	s := r.run(r.begin(nil))
	if len(work.runs) != 2 {
		t.Fatalf("runs %v", work.runs)
	}
	for _, m := range s.Messages() {
		for _, c := range m.ToolCalls {
			if len(streamed) > 0 && !slices.Contains(streamed, c.ID) {
				t.Errorf("call %s was streamed under another id: %v", c.ID, streamed)
			}
		}
	}
}

// The log of a session may come from elsewhere: that a call had started does
// not mean that anybody here allowed it.
func TestPending_aCallThatHadStartedIsDecidedAgain(t *testing.T) {
	for name, gate := range map[string]agent.Gate{"no gate": nil, "a gate that asks": &askAll{}} {
		work := &counter{name: "work", nature: tool.Idempotent}
		r := newRig(t, scripted.New(scripted.Reply{Text: "done"}), work)
		s, err := r.begin(nil).With(r.now,
			session.InferenceAnswered{StepID: "step"},
			session.MessageAdded{Message: session.Message{ID: "a", Role: session.RoleAssistant, StepID: "step", ExecutionID: "e", ToolCalls: []session.ToolCall{call("call-work", "work")}}},
			session.ToolStarted{StepID: "step", CallID: "call-work", ToolName: "work"})
		if err != nil {
			t.Fatal(err)
		}
		r.config.Gate = gate
		s = r.run(s)
		if ran := work.runs["call-work"]; ran != map[bool]int{true: 1}[gate == nil] || s.Reply() != "done" {
			t.Errorf("%s: ran %d times, results %v", name, ran, results(s))
		}
		if gate != nil && results(s)["call-work"] != session.UnknownOutcome {
			t.Errorf("%s: %v", name, results(s))
		}
	}
}
