package task_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// A step that failed is made good by a step before the remaining ones, once
// for each failure.
func TestRecovery_oneStepForAFailure(t *testing.T) {
	t.Parallel()
	odd := scripted.Reply{Err: errors.New("something odd at line 12")}
	var planned []string
	model := modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
		asked := r.Messages[len(r.Messages)-1].Content.Text()
		planned = append(planned, asked)
		if strings.HasSuffix(asked, ": first") {
			return llm.Response{}, odd.Err
		}
		return llm.Response{Content: session.Text("this part is done")}, nil
	})
	s := newSite(t, task.Config{}, model)
	row := s.run(spec())
	state := s.state(row.ID)
	if !state.Recovery.Recovered.Has("s1") || *state.Recovery.Class != task.ClassExternalUnknown || state.Recovery.Active {
		t.Errorf("recovery %+v", state.Recovery)
	}
	var kinds []string
	for _, step := range state.Plan.Steps {
		kinds = append(kinds, step.Kind+" "+step.Status)
	}
	if want := []string{" failed", "recovery completed", " completed"}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("the plan came to %q, want %q", kinds, want)
	}
	revised := s.only(row.ID, "plan_revised").Data["plan"].(map[string]any)["steps"].([]any)
	if len(revised) != 3 {
		t.Errorf("the event has %d steps of the plan, want all 3", len(revised))
	}
	if row.RecoveryClass != task.ClassExternalUnknown {
		t.Errorf("the row says %q", row.RecoveryClass)
	}
}

func TestRecovery_notForWhatAPersonMustDo(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]struct{ status, class string }{
		errors.New("user action required"):                          {task.Failed, task.ClassUser},
		&llm.ProviderError{Status: 429, Code: "insufficient_quota"}: {task.Paused, task.ClassQuota},
	} {
		s := newSite(t, task.Config{}, scripted.New(scripted.Reply{Err: err}))
		row, failed := s.x.Start(context.Background(), spec())
		if failed != nil || row.Status != want.status || row.FailureClass != want.class {
			t.Errorf("%v: %s/%s, %v; want %s/%s", err, row.Status, row.FailureClass, failed, want.status, want.class)
		}
		if _, ok := s.state(row.ID).Plan.Step("s2"); !ok || len(s.state(row.ID).Plan.Steps) != 2 {
			t.Errorf("%v: a recovery was planned", err)
		}
	}
}

func TestResetForRetry_forgetsFailuresAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	var want session.TaskState
	s.alter(id, func(st *session.TaskState) {
		st.Tools.Failures = st.Tools.Failures.With("get", session.ToolFailure{Systemic: 3})
		st.Tools.Results = []session.ToolMemory{{Tool: "get"}}
		st.Tools.Calls = st.Tools.Calls.With("get", 4)
		st.Said.Answer, st.Said.Result, st.Said.Shown = ptr("a"), ptr("b"), ptr("c")
		st.Said.User = "said"
		st.Recovery = session.TaskRecovery{
			Active: true, Failure: "x", Recovered: session.NewSet("s1"),
			Class: ptr("c"), DisabledScope: ptr("global"),
		}
		st.Loop.Advice, st.Loop.BlockedText = "turn", ptr("f")
		st.Loop.Blocked, st.Loop.Turns, st.Loop.LifetimeTurns = &session.Signature{Tool: "a"}, 3, 7
		st.Steps.Counts = &session.StepCounts{StepID: "s1", Iterations: 32}
		st.Usage.Input = 9
		st.Steps.FailedRequired = session.NewSet("s2")
		want = *st.Clone()
	}, nil)
	s.with(id, func(r *task.Run) {
		if err := r.ResetForRetry(context.Background(), "again, please"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.CreateChecklist(context.Background(), []task.ItemInput{item("a", "", "pending")}); err != nil {
			t.Fatal(err)
		}
	})
	got := s.state(id)
	want.Tools.Failures, want.Tools.Results = session.Pairs[session.ToolFailure]{}, []session.ToolMemory{}
	want.Said.Answer, want.Said.Result, want.Said.Shown = nil, nil, nil
	want.Recovery = session.TaskRecovery{RetryReason: ptr("again, please")}
	want.Loop.Advice, want.Loop.BlockedText = "", nil
	want.Loop.Blocked, want.Steps.Counts = nil, nil
	want.Checklist = got.Checklist
	if a, b := jsonOf(t, got), jsonOf(t, want); a != b {
		t.Errorf("after the reset\n%s, want\n%s", a, b)
	}
}

// A hint is given once in a step, on the user's side, also when the step is
// gone on with by another process.
func TestHints_oncePerStep(t *testing.T) {
	t.Parallel()
	look := answers("look", tool.Network, "the same")
	var replies []scripted.Reply
	for i := range 9 {
		replies = append(replies, replyCalls(callOf(fmt.Sprintf("c%d", i), "look", `{"url":"u"}`)))
	}
	c := task.Config{Registry: kit{look}}
	s := newSite(t, c, scripted.New(append(replies, reply("it is done"))...))
	id := s.run(oneStep()).ID
	hints := 0
	for _, m := range s.messages(id) {
		if m.Role == session.RoleUser && strings.Contains(m.Content.Text(), "5 times in a row") {
			hints++
		}
	}
	if hints != 1 {
		t.Errorf("the hint was given %d times, want once", hints)
	}
}

// The state of a task is the fold of its log: of all of it at once, or of any
// beginning and then the rest.
func TestState_isTheFoldOfTheLog(t *testing.T) {
	t.Parallel()
	broken := toolOf("broken", tool.Network, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, &session.UnsupportedError{Store: "x", Ability: "y"}
	})
	s := newSite(t, task.Config{Registry: kit{broken, answers("look", tool.Network, "seen")}}, scripted.New(
		replyCalls(callOf("c1", "task_list_create", `{"items":[{"title":"work","status":"completed"}]}`), callOf("c2", "look", `{"url":"u"}`)),
		replyCalls(callOf("c3", "broken", `{}`)), reply("the first is done"), scripted.Reply{}, reply("the second is done"),
	))
	sp := spec()
	sp.Budget = &task.Budget{MaxTurns: 3, ContinuationPolicy: task.FixedCaps}
	row := s.run(sp)
	var records []session.Record
	for e, err := range s.rt.Log(context.Background(), row.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, e.Record)
	}
	fold := func(parts ...[]session.Record) string {
		var whole session.Session
		for i, part := range parts {
			var err error
			if i == 0 {
				whole, err = session.Fold(part)
			} else if len(part) > 0 {
				whole, err = session.FoldFrom(whole, part)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return jsonOf(t, whole.Task())
	}
	want := fold(records)
	for i := 1; i < len(records); i++ {
		if got := fold(records[:i], records[i:]); got != want {
			t.Fatalf("parted after %d of %d changes, the log comes to\n%s, want\n%s", i, len(records), got, want)
		}
	}
	live := s.state(row.ID)
	if got := jsonOf(t, live); got != want {
		t.Errorf("the task says\n%s, its log\n%s", got, want)
	}
	if !reflect.DeepEqual(*row.Projection, live.Projection()) {
		t.Errorf("the row shows %+v, the state %+v", *row.Projection, live.Projection())
	}
}
