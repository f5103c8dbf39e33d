package session_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

func assistant(id, step, text string) session.MessageAdded {
	return session.MessageAdded{Message: session.Message{ID: id, Role: session.RoleAssistant, StepID: step, Content: session.Text(text)}}
}

func TestExecution_isFoldedFromItsChanges(t *testing.T) {
	t.Parallel()
	used := session.Usage{Input: 10, Output: 5, Reasoning: 1}
	s := apply(t, newSession(t),
		session.ExecutionStarted{ExecutionID: "x-1", Budget: &session.Budget{MaxSteps: ptr(int64(3))}},
		session.InferenceAnswered{StepID: "step-1", Model: "m", StartedAt: at(1), FinishReason: "tool_calls", Usage: used, Cost: 7, ActiveSeconds: 1},
		session.MessageAdded{Message: session.Message{ID: "a-1", Role: session.RoleAssistant, StepID: "step-1", ToolCalls: []session.ToolCall{{ID: "c-1", Name: "look"}}}},
		session.ToolStarted{StepID: "step-1", CallID: "c-1", ToolName: "look"},
		session.ToolStarted{StepID: "step-1", CallID: "c-1", ToolName: "look"}, // again, after a crash
		session.ExecutionContinued{},
		session.ToolFinished{StepID: "step-1", CallID: "c-1", ToolName: "look", ActiveSeconds: 2},
		session.MessageAdded{Message: session.Message{ID: "r-1", Role: session.RoleTool, StepID: "step-1", ToolResult: &session.ToolResult{CallID: "c-1", Content: "rain"}}},
		session.ToolFinished{StepID: "step-1", CallID: "c-2", ToolName: "never", IsError: true, Synthetic: true, ActiveSeconds: 2},
		session.StepFinished{StepID: "step-1", Type: session.StepTools, ActiveSeconds: 2.5},
		session.InferenceFailed{StepID: "step-2", Model: "m", Errors: []session.Failure{{Kind: "rate_limit", Message: "429"}}, ActiveSeconds: 3},
	)
	e := s.Execution()
	if e.ID != "x-1" || e.Number != 1 || e.Status != session.ExecutionInProgress || !s.Running() || e.CompletedAt != nil || *e.Budget.MaxSteps != 3 {
		t.Fatalf("%+v", e)
	}
	if e.Usage != used || e.Cost != 7 || e.ActiveSeconds != 3 || s.InferenceCount() != 2 || len(e.Steps) != 2 || len(e.Errors) != 1 {
		t.Errorf("usage %+v cost %s seconds %v inferences %d", e.Usage, e.Cost, e.ActiveSeconds, s.InferenceCount())
	}
	step := e.Steps[0]
	if step.Number != 1 || step.Type != session.StepTools || step.CompletedAt == nil || !slices.Equal(step.MessageIDs, []string{"a-1", "r-1"}) {
		t.Errorf("%+v", step)
	}
	if len(step.ToolExecutions) != 2 || step.ToolExecutions[0].CompletedAt == nil || !step.ToolExecutions[1].Synthetic {
		t.Errorf("%+v", step.ToolExecutions)
	}
	if failed := e.Steps[1]; failed.Type != session.StepError || failed.CompletedAt == nil || failed.Errors[0].Kind != "rate_limit" {
		t.Errorf("%+v", failed)
	}
	stop := &session.Signal{Reason: session.StopRetries, Message: "gave up"}
	done := apply(t, s, session.ExecutionFinished{Status: stop.Reason.Status(), Stop: stop, ActiveSeconds: 4})
	if e := done.Execution(); e.Status != session.ExecutionFailed || e.Stop.Reason != session.StopRetries || e.CompletedAt == nil || done.Running() {
		t.Errorf("%+v", e)
	}
	if !s.Running() || done.Status() != session.Active {
		t.Error("ending the execution touched the older value or the session's status")
	}
	again := apply(t, done, session.ExecutionStarted{ExecutionID: "x-2"})
	total, spent := again.Usage()
	if e := again.Execution(); e.Number != 2 || len(e.Steps) != 0 || e.Usage != (session.Usage{}) || total != used || spent != 7 {
		t.Errorf("second execution %+v, totals %+v %s", e, total, spent)
	}
}

func TestExecution_refusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	idle := newSession(t)
	running := apply(t, idle, session.ExecutionStarted{ExecutionID: "x-1"})
	for _, c := range []session.Change{
		session.ExecutionContinued{}, session.InferenceAnswered{StepID: "s"}, session.InferenceFailed{StepID: "s"}, session.ToolStarted{StepID: "s"},
		session.ToolFinished{StepID: "s"}, session.StepFinished{StepID: "s", Type: session.StepFinal}, session.ExecutionFinished{Status: session.ExecutionCompleted},
	} {
		next, err := idle.With(noon, c)
		refused(t, err, "execution")
		if !reflect.DeepEqual(next, idle) {
			t.Errorf("%s changed an idle session", c.Kind())
		}
	}
	for field, c := range map[string]session.Change{
		"execution": session.ExecutionStarted{ExecutionID: "x-2"}, "executionId": session.ExecutionStarted{},
		"stepId": session.ToolStarted{StepID: "none"}, "status": session.ExecutionFinished{Status: session.ExecutionInProgress},
		"execution.activeSeconds": session.ExecutionFinished{Status: session.ExecutionCompleted, ActiveSeconds: math.NaN()},
		"tool.activeSeconds":      session.ToolFinished{ActiveSeconds: math.Inf(1)},
		"step.activeSeconds":      session.StepFinished{Type: session.StepFinal, ActiveSeconds: -1},
		"inference.cost":          session.InferenceAnswered{StepID: "s", Cost: -1},
		"inference.usage":         session.InferenceAnswered{StepID: "s", Usage: session.Usage{Reasoning: -1}},
		"inference.activeSeconds": session.InferenceFailed{StepID: "s", ActiveSeconds: -1},
		"reasons":                 session.InferenceAnswered{StepID: "s", Recalled: []string{"m"}, Reasons: []session.RecallReason{{Score: math.NaN()}}},
		"budget.maxSeconds":       session.ExecutionStarted{ExecutionID: "x", Budget: &session.Budget{MaxSeconds: ptr(math.NaN())}},
		"modelParams.temperature": session.ModelChanged{Params: &session.ModelParams{Temperature: ptr(math.Inf(1))}},
		"signal.reason":           session.StepFinished{Type: session.StepFinal, Signals: []session.Signal{{Reason: "bored"}}},
		"itemId":                  session.InboxTaken{},
	} {
		_, err := running.With(noon, c)
		refused(t, err, field)
	}
}

func TestReply_isTheLastFinalAnswer(t *testing.T) {
	t.Parallel()
	answered := func(steps ...session.Change) session.Session {
		return apply(t, newSession(t), append([]session.Change{session.ExecutionStarted{ExecutionID: "x"}}, steps...)...)
	}
	infer := session.InferenceAnswered{StepID: "one"}
	final := session.StepFinished{StepID: "one", Type: session.StepFinal}
	s := answered(infer, assistant("m-1", "one", "Take a coat."), final)
	for name, tt := range map[string]struct {
		s    session.Session
		want string
	}{
		"no execution":        {say(t, newSession(t), "hi"), ""},
		"no step":             {answered(), ""},
		"step still open":     {answered(infer, assistant("m-1", "one", "Take")), ""},
		"final":               {s, "Take a coat."},
		"later user message":  {say(t, s, "thanks"), "Take a coat."},
		"other step's text":   {answered(infer, assistant("m-1", "two", "no"), final), ""},
		"blank":               {answered(infer, assistant("m-1", "one", " \n"), final), ""},
		"tools":               {answered(infer, assistant("m-1", "one", "Let me see."), session.StepFinished{StepID: "one", Type: session.StepTools}), ""},
		"failed step after":   {apply(t, s, session.InferenceFailed{StepID: "two"}), ""},
		"two answers":         {answered(infer, assistant("m-1", "one", "a"), assistant("m-2", "one", "b"), final), "b"},
		"cleared":             {apply(t, s, session.TranscriptCleared{}), ""},
		"new execution":       {apply(t, s, session.ExecutionFinished{Status: session.ExecutionCompleted}, session.ExecutionStarted{ExecutionID: "y"}), ""},
		"finished, saved too": {session.Seal(apply(t, s, session.ExecutionFinished{Status: session.ExecutionCompleted}), noon), "Take a coat."},
	} {
		if have := tt.s.Reply(); have != tt.want {
			t.Errorf("%s: %q, want %q", name, have, tt.want)
		}
	}
}

func TestPrimary_firstByPriorityThenEarliest(t *testing.T) {
	t.Parallel()
	order := []session.StopReason{
		"error", "stop_requested", "user_requested", "interrupted", "steps_limit", "token_limit", "time_limit", "cost_limit", "deadline",
		"retry_limit", "finish_reason", "completed", "unknown",
	}
	if !slices.Equal(session.StopReasons(), order) {
		t.Fatalf("reasons are %q", session.StopReasons())
	}
	if _, ok := session.Primary(nil); ok {
		t.Error("no signals have a primary one")
	}
	property.Check(t, func(t *property.T) {
		list := signals().Draw(t, "signals")
		list = append(list, signals().Draw(t, "more")...)
		for i := range list {
			list[i].Source = string(rune('a' + i))
		}
		have, ok := session.Primary(list)
		if !ok {
			return
		}
		for i, s := range list {
			better := slices.Index(order, s.Reason) < slices.Index(order, have.Reason)
			earlier := s.Reason == have.Reason && string(rune('a'+i)) < have.Source
			if better || earlier {
				t.Fatalf("%s of %s was chosen over %s of %s", have.Reason, have.Source, s.Reason, s.Source)
			}
		}
	})
	for _, r := range order {
		want := session.ExecutionStopped
		switch r {
		case "error", "retry_limit":
			want = session.ExecutionFailed
		case "completed", "finish_reason":
			want = session.ExecutionCompleted
		}
		if r.Status() != want {
			t.Errorf("%s ends as %s, want %s", r, r.Status(), want)
		}
	}
}

func TestModel_overrideThenDefinition(t *testing.T) {
	t.Parallel()
	def := session.Definition{Name: "a", Model: "own", ModelParams: &session.ModelParams{TopP: ptr(0.5)}}
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, def, session.Seed{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	over, err := s.WithModel("other", &session.ModelParams{TopP: ptr(0.1), Stop: []string{}, Options: session.Values{}}, noon)
	if err != nil {
		t.Fatal(err)
	}
	back, err := over.WithModel("", nil, noon.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if s.Model() != "own" || *s.ModelParams().TopP != 0.5 || over.Model() != "other" || *over.ModelParams().TopP != 0.1 || back.Model() != "own" || *back.ModelParams().TopP != 0.5 {
		t.Errorf("%s %s %s", s.Model(), over.Model(), back.Model())
	}
	if p := over.ModelParams(); p.Stop != nil || p.Options != nil {
		t.Errorf("an empty list that JSON leaves out is not nil: %#v", p)
	}
}
