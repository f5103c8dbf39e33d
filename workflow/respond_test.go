package workflow_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow"
)

// waiting lists the pending calls of all sessions.
func (s *scene) waiting() []holdfast.Pending {
	s.Helper()
	page, err := s.rt.Pending(s.Context(), holdfast.PendingQuery{})
	if err != nil {
		s.Fatal(err)
	}
	return page.Items
}

// only is the one call that waits.
func (s *scene) only() session.PendingCall {
	s.Helper()
	items := s.waiting()
	if len(items) != 1 || items[0].Session.ID != s.id || items[0].Session.Pending != 1 {
		s.Fatalf("waiting: %+v", items)
	}
	return items[0].PendingCall
}

func (s *scene) respond(r session.Response) error {
	s.Helper()
	return s.rt.Respond(s.Context(), s.id, r)
}

func answerTo(id, text string) session.Response {
	return session.Response{PendingID: id, Action: session.RespondAnswer, Text: text}
}

func TestRespond_aQuestionOfTheSpec(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("p")(s.start(strings.Replace(askingChain, "ASK", "default: d, timeout_seconds: 3600", 1)))
	q := s.only()
	if q.ID != "step/1" || q.Unit != "step/1" || q.Kind != session.PendingQuestion || *q.Default != "d" || q.ExpiresAt == nil || !q.BySpec() {
		t.Errorf("the question is %+v", q)
	}
	for _, refused := range []session.Response{{PendingID: q.ID, Action: session.RespondApprove}, {PendingID: q.ID, Action: session.RespondDeny}} {
		if err := s.respond(refused); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s gave %v", refused.Action, err)
		}
	}
	for range 2 {
		if err := s.respond(answerTo(q.ID, "mine")); err != nil {
			t.Fatal(err)
		}
	}
	var responded *session.RespondedError
	if err := s.respond(answerTo(q.ID, "other")); !errors.As(err, &responded) || responded.Response.Text != "mine" {
		t.Errorf("a second answer gave %v", err)
	}
	if _, err := s.answer("other"); !errors.As(err, &responded) {
		t.Errorf("a resume with a second answer gave %v", err)
	}
	s.completes("re: mine")(s.resume(workflow.ResumeOptions{}))
	if len(s.waiting()) != 0 {
		t.Errorf("still waiting: %+v", s.waiting())
	}
	if err := s.respond(answerTo(q.ID, "other")); !errors.As(err, &responded) {
		t.Errorf("an answer after the end gave %v", err)
	}
}

func TestRespond_anAnswerThatTheSpecRefusesLeavesTheQuestion(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"router": {`{"route": "one"}`}, "a": {"end"}}))
	s.pauses("one?")(s.start(strings.Replace(reviewedSpec, `, default: "%s", timeout_seconds: 60`, "", 1)))
	first := s.only()
	before := s.calls()
	if err := s.respond(answerTo(first.ID, "what?")); err != nil {
		t.Fatal(err)
	}
	s.pauses("one?")(s.resume(workflow.ResumeOptions{}))
	if s.calls() != before || !strings.Contains(s.warnings(), "neither approved") {
		t.Errorf("%d calls, warned %s", s.calls()-before, s.warnings())
	}
	again := s.only()
	if again.ID == first.ID || !strings.Contains(string(again.Details), "neither approved") {
		t.Errorf("the question is asked again as %+v", again)
	}
	if err := s.respond(answerTo(first.ID, "approved")); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("an answer to the first question gave %v", err)
	}
	if err := s.respond(answerTo(again.ID, "approved")); err != nil {
		t.Fatal(err)
	}
	s.completes("end")(s.resume(workflow.ResumeOptions{}))
}

// A log that is older than pending calls continues.
func TestRespond_toAnOldLog(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	loaded := load(t, head+`
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{type: hitl, prompt: p}, {agent: a, input: "{{ hitl_response }}"}]}}
`, nil)
	snap, err := loaded.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	begun, err := workflow.Beginning(loaded, snap, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.rt.Create(t.Context(), workflow.Definition(loaded), holdfast.WithKind(session.KindWorkflow), holdfast.WithChanges(begun,
		session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: loaded.Name, SpecHash: snap.SHA256, Pattern: "chain", Status: "paused"}},
		session.QuestionPut{Question: session.Question{Unit: "step/0", Prompt: "p"}}))
	if err != nil {
		t.Fatal(err)
	}
	s.id = made.ID()
	s.pauses("p")(s.resume(workflow.ResumeOptions{}))
	if err := s.respond(answerTo(s.only().ID, "y")); err != nil {
		t.Fatal(err)
	}
	s.completes("re: y")(s.resume(workflow.ResumeOptions{}))
}

const waitingSpec = head + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern: {type: parallel, config: {branches: [{id: x, steps: [{agent: a, input: ask}, {agent: a, input: "then {{ steps[0].response }}"}]}, {id: y, steps: [{agent: b, input: work}]}]}}
`

// asksFirst calls a tool at "ask" and repeats its result.
func asksFirst(name, arguments string) func(llm.Request) (llm.Response, error) {
	return func(r llm.Request) (llm.Response, error) {
		switch m := r.Messages[len(r.Messages)-1]; {
		case m.ToolResult != nil:
			return said("heard " + m.ToolResult.Content), nil
		case input(r) == "ask":
			response := calling(name)
			response.ToolCalls[0].Arguments = []byte(arguments)
			return response, nil
		}
		return echo(r)
	}
}

func asksPerson() func(llm.Request) (llm.Response, error) {
	return asksFirst(tool.AskPersonName, `{"question":"Which?","options":["red","blue"]}`)
}

// A unit that waits keeps no other branch from its work, and pauses the run.
func TestRespond_aUnitAsksAPerson(t *testing.T) {
	t.Parallel()
	s := newScene(t, asksPerson())
	s.host.Tools = toolbox(tool.AskPerson())
	res, err := s.start(waitingSpec)
	s.pauses("Which?")(res, err)
	if q := res.Question; q.Unit != "branch/x/step/0" || len(q.Choices) != 2 || len(res.Waiting) != 1 || s.state().Open[0].Unit != q.Unit {
		t.Errorf("the question is %+v of %+v", q, res.Waiting)
	}
	if p := s.only(); p.Unit != "branch/x/step/0" || p.ExecutionID != p.Unit || p.CallID != "c-"+tool.AskPersonName {
		t.Errorf("the call is %+v", p)
	}
	if got := s.reported(); !strings.Contains(got, "hitl_pause branch/x/step/0") || !strings.Contains(got, "branch_complete y") {
		t.Errorf("reported: %s", got)
	}
	s.pauses("Which?")(s.resume(workflow.ResumeOptions{}))
	again, err := s.resume(workflow.ResumeOptions{})
	s.pauses("Which?")(again, err)
	if again.Version != res.Version || s.calls() != 2 {
		t.Errorf("version %d became %d after %d calls", res.Version, again.Version, s.calls())
	}
	if _, err := s.answer("green"); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an answer that is not offered gave %v", err)
	}
	want := "Branch x:\nre: then heard red\n\n---\n\nBranch y:\nre: work"
	s.completes(want)(s.answer("red"))
	if s.calls() != 4 || len(s.waiting()) != 0 {
		t.Errorf("%d calls, waiting: %+v", s.calls(), s.waiting())
	}
}

func TestRespond_aClientRunsTheToolOfAUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		response session.Response
		want     string
	}{
		{session.Response{Action: session.RespondResult, Text: "12 kg"}, "heard 12 kg"},
		{session.Response{Action: session.RespondDeny, Text: "no scales"}, "heard not run: the user denied it: no scales"},
	} {
		s := newScene(t, asksFirst("weigh", "{}"))
		s.host.Tools = toolbox(tool.Client(session.ClientTool{Name: "weigh", Description: "Weighs."}))
		res, err := s.start(strings.Replace(askingChain, `{agent: a, input: x}, {type: hitl, prompt: "p", ASK}, {agent: a, input: "{{ hitl_response }}"}`, `{agent: a, input: ask}`, 1))
		if err != nil || res.Status != workflow.StatusPaused || res.Question != nil || len(res.Waiting) != 1 || res.Waiting[0].Kind != session.PendingResult {
			t.Fatalf("the run is %+v (%v)", res, err)
		}
		c.response.PendingID = s.only().CallID
		if err := s.respond(c.response); err != nil {
			t.Fatal(err)
		}
		s.completes(c.want)(s.resume(workflow.ResumeOptions{}))
	}
}

// A tool that has to be approved waits; what a person allows for the session
// counts in every unit of the run.
func TestRespond_aUnitAsksForApproval(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	run, err := tool.Func(tool.Spec{Name: "shell", Description: "runs a command", Effects: tool.Shell}, func(_ context.Context, in struct {
		Command string `json:"command"`
	}) (string, error) {
		ran.Add(1)
		return "ran " + in.Command, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, asksFirst("shell", `{"command":"make"}`))
	w := permission.Workspace{ID: "w", Root: t.TempDir(), Capabilities: map[string]bool{"shell": true}}
	s.host.Permissions = &holdfast.Permissions{Workspace: func(session.Session) permission.Workspace { return w }}
	s.host.Tools = toolbox(run)
	spec := strings.Replace(askingChain, `{agent: a, input: x}, {type: hitl, prompt: "p", ASK}, {agent: a, input: "{{ hitl_response }}"}`, `{agent: a, input: ask}, {agent: b, input: ask}`, 1)
	res, err := s.start(strings.Replace(spec, "{a: {prompt: A}}", "{a: {prompt: A}, b: {prompt: B}}", 1))
	if err != nil || res.Status != workflow.StatusPaused || len(res.Waiting) != 1 || res.Waiting[0].Kind != session.PendingApproval || ran.Load() != 0 {
		t.Fatalf("the run is %+v (%v), the tool ran %d times", res, err, ran.Load())
	}
	choice := ""
	for _, c := range res.Waiting[0].Choices {
		if c.Rule != nil && c.Rule.Source == session.SourceSession && c.Rule.Effect == session.EffectAllow {
			choice = c.Value
		}
	}
	if choice == "" {
		t.Fatalf("the choices are %+v", res.Waiting[0].Choices)
	}
	if err := s.respond(session.Response{PendingID: res.Waiting[0].ID, Action: session.RespondApprove, Choice: choice}); err != nil {
		t.Fatal(err)
	}
	s.completes("heard ran make")(s.resume(workflow.ResumeOptions{}))
	if ran.Load() != 2 || len(s.waiting()) != 0 {
		t.Errorf("the tool ran %d times, waiting: %+v", ran.Load(), s.waiting())
	}
}

// A response that arrives while other units work is taken by the same attempt.
func TestRespond_whileOthersWork(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	asks := asksPerson()
	asked := make(chan struct{})
	s.actor.answer = func(r llm.Request) (llm.Response, error) {
		if input(r) == "work" {
			<-asked
			if err := s.respond(answerTo(s.only().ID, "blue")); err != nil {
				t.Error(err)
			}
		}
		return asks(r)
	}
	report := s.host.OnEvent
	s.host.OnEvent = func(e workflow.Event) {
		report(e)
		if e.Type == workflow.HITLPause {
			close(asked)
		}
	}
	s.host.Tools = toolbox(tool.AskPerson())
	ids := workflow.NewSessionID()
	s.id = ids
	s.completes("Branch x:\nre: then heard blue\n\n---\n\nBranch y:\nre: work")(s.startWith(workflow.RunOptions{ID: ids}, waitingSpec))
}

// The person at the terminal is asked by agents as well as by the spec.
func TestRespond_aUnitAsksAtTheTerminal(t *testing.T) {
	t.Parallel()
	s := newScene(t, asksPerson())
	s.host.Tools = toolbox(tool.AskPerson())
	answers := []string{"green", "red"}
	s.completes("Branch x:\nre: then heard red\n\n---\n\nBranch y:\nre: work")(s.startWith(workflow.RunOptions{
		Ask: func(_ context.Context, q workflow.HITLState) (string, error) {
			text := answers[0]
			answers = answers[1:]
			return text, nil
		},
	}, waitingSpec))
	if !strings.Contains(s.warnings(), "not offered") {
		t.Errorf("warned: %s", s.warnings())
	}
}

func TestRespond_aCallOfAUnitExpires(t *testing.T) {
	t.Parallel()
	s := newScene(t, asksPerson())
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), PendingTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	s.rt = rt
	now := time.Now()
	s.host.Now = func() time.Time { return now }
	s.host.Tools = toolbox(tool.AskPerson())
	s.pauses("Which?")(s.start(waitingSpec))
	now = now.Add(59 * time.Second)
	s.pauses("Which?")(s.resume(workflow.ResumeOptions{}))
	now = now.Add(time.Second)
	s.completes("Branch x:\nre: then heard not run: nobody responded in time\n\n---\n\nBranch y:\nre: work")(s.resume(workflow.ResumeOptions{}))
}

// Questions of the spec and calls of units wait side by side.
func TestRespond_questionsOfTheSpecBesideCallsOfUnits(t *testing.T) {
	t.Parallel()
	s := newScene(t, asksPerson())
	s.host.Tools = toolbox(tool.AskPerson())
	res, err := s.start(strings.Replace(waitingSpec, "{agent: b, input: work}", "{agent: b, input: work}, {type: hitl, prompt: Good?}", 1))
	s.pauses("Good?")(res, err)
	if len(res.Pending) != 2 || len(res.Waiting) != 2 {
		t.Fatalf("waiting: %+v", res.Waiting)
	}
	call := res.Pending[1]
	s.pauses("Good?")(s.resume(workflow.ResumeOptions{Answer: ptr("blue"), Target: call.PendingID}))
	s.completes("Branch x:\nre: then heard blue\n\n---\n\nBranch y:\nyes")(s.answer("yes"))
}
