package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// said counts the messages of a task with a text.
func (s *site) said(id, text string) int {
	n := 0
	for _, m := range s.messages(id) {
		if m.Content.Text() == text {
			n++
		}
	}
	return n
}

func TestQueueFollowUp_refusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	for _, f := range []session.FollowUp{{}, {Message: " \n"}, {Images: json.RawMessage(`[]`)}, {Message: "x", Images: json.RawMessage(`{}`)}} {
		if _, err := s.x.QueueFollowUp(context.Background(), id, f); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v, want it refused", f, err)
		}
	}
	if q := s.state(id).Queues.FollowUps; len(q) != 0 {
		t.Errorf("a refused message is queued: %v", q)
	}
}

// What was queued keeps all its fields, in order, and the same id is the same
// message.
func TestQueueFollowUp_keepsEverythingInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.create(spec())
	whole := session.FollowUp{
		ID: "f1", Message: "look", Images: json.RawMessage(`[{"mimeType":"image/png","data":"aGk="}]`),
		QuotedAssistantMessage: json.RawMessage(`"what you said"`), IntegrationMentions: json.RawMessage(`["mail"]`),
		AgentConfigOverride: json.RawMessage(`{"model":"other/model"}`),
	}
	for range 2 {
		got, err := s.x.QueueFollowUp(context.Background(), id, whole)
		if err != nil || got != "f1" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if _, err := s.x.QueueFollowUp(context.Background(), id, session.FollowUp{Message: "second"}); err != nil {
		t.Fatal(err)
	}
	s.open(task.Config{})
	queued := s.state(id).Queues.FollowUps
	if len(queued) != 2 || queued[1].Message != "second" {
		t.Fatalf("queued %+v", queued)
	}
	whole.QueuedAt = s.clock().UnixMilli()
	if a, b := fmt.Sprint(queued[0]), fmt.Sprint(whole); a != b {
		t.Errorf("queued %s, want %s", a, b)
	}
	s.with(id, func(r *task.Run) { // handed out, they are still queued until they are delivered
		for range 2 {
			if got, err := r.DrainFollowUps(context.Background()); err != nil || len(got) != 2 || got[0].ID != "f1" {
				t.Errorf("drained %v, %v", got, err)
			}
		}
	})
	if n := len(s.state(id).Queues.FollowUps); n != 2 {
		t.Errorf("what was drained and not delivered is lost: %d are queued", n)
	}
}

// A follow-up that arrives during a step is said before the next request, once,
// though the process ends at any of its writes.
func TestFollowUp_deliveredOnceWhicheverWriteFails(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		writes := 0
		for n := 0; n == 0 || n <= writes; n++ { // with 0, nothing fails
			count := crashFollowUp(t, n, late)
			if n == 0 {
				writes = count
			}
		}
		if writes < 8 {
			t.Errorf("only %d writes were tried", writes)
		}
	}
}

// crashFollowUp runs a task to its end whose n-th write fails, before or after
// it was made, and resumes it. It returns how many writes there were.
func crashFollowUp(t *testing.T, n int, late bool) (writes int) {
	t.Helper()
	base := newStore(t)
	var mu sync.Mutex
	count := 0
	faulty := storetest.Faulty(base, func(call string, _ int) error {
		if call != "Append" && call != "Save" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		count++
		switch {
		case n == 0 || count < n:
			return nil
		case late && count == n:
			return storetest.After(errOdd)
		}
		return errOdd // and from then on the process is gone
	})
	var s *site
	ran := 0
	post := toolOf("post", tool.Write, tool.Once, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		ran++
		_, err := s.x.QueueFollowUp(ctx, "job", session.FollowUp{ID: "f1", Message: "faster"})
		return tool.Result{Content: "posted"}, err
	})
	c := task.Config{Registry: kit{post}, Snapshots: task.SnapshotNever}
	model := scripted.New(replyCalls(callOf("c1", "post", `{}`)), reply("all is done now"))
	s = newSiteOn(t, faulty, c, model)
	id := s.create(oneStep())
	mu.Lock()
	count = 0
	mu.Unlock()
	_, err := s.x.Resume(context.Background(), id)
	if (err == nil) != (n == 0) {
		t.Fatalf("write %d failed and the run ended with %v", n, err)
	}
	mu.Lock()
	writes = count
	mu.Unlock()
	if n > 0 {
		s.store = base
		s.open(c)
		if got := s.state(id).Queues.FollowUps; len(got)+len(s.events(id, "follow_up_delivered")) > 1 {
			t.Errorf("write %d: it is queued %v and delivered", n, got)
		}
		if _, err := s.x.Resume(context.Background(), id); err != nil && !errors.Is(err, session.ErrTaskTerminal) {
			t.Fatalf("write %d: resume: %v", n, err)
		}
	}
	row, err := s.x.Get(context.Background(), id)
	if err != nil || row.Status != task.Completed {
		t.Fatalf("write %d: the task is %s (%s), %v", n, row.Status, row.Error, err)
	}
	if ran > 1 {
		t.Errorf("write %d: the tool ran %d times", n, ran)
	}
	if ran == 1 {
		if got := s.said(id, "USER UPDATE: faster") + s.said(id, "faster"); got != 1 || len(s.events(id, "follow_up_delivered")) != 1 {
			t.Errorf("write %d (late %v): it was said %d times and told %d times", n, late, got, len(s.events(id, "follow_up_delivered")))
		}
		if left := s.state(id).Queues.FollowUps; len(left) != 0 {
			t.Errorf("write %d: it is still queued", n)
		}
	}
	return writes
}

// What a follow-up changes of the agent holds for the turn that answers it.
func TestFollowUp_overrideForOneTurn(t *testing.T) {
	t.Parallel()
	var s *site
	var asked []string
	post := toolOf("post", tool.Write, tool.Once, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		_, err := s.x.QueueFollowUp(ctx, "job", session.FollowUp{
			Message: "think", AgentConfigOverride: json.RawMessage(`{"systemPrompt":"be brief"}`),
		})
		return tool.Result{Content: "posted"}, err
	})
	model := scripted.New(replyCalls(callOf("c1", "post", `{}`)), replyCalls(callOf("c2", "task_list_list", `{}`)), reply("all done"))
	s = newSite(t, task.Config{Registry: kit{post}}, model)
	s.run(oneStep())
	for _, r := range model.Requests() {
		asked = append(asked, fmt.Sprint(strings.HasPrefix(r.System, "be brief")))
	}
	if want := []string{"false", "true", "false"}; !slices.Equal(asked, want) {
		t.Errorf("overridden in %v, want %v", asked, want)
	}
}

func TestStepFeedback_effects(t *testing.T) {
	t.Parallel()
	type want struct {
		status  string // of the step
		reason  task.StopReason
		says    string
		ignored bool
		row     string
	}
	for name, c := range map[string]struct {
		f    session.StepFeedback
		s2   string
		step string
		want want
	}{
		"skip the running step":   {f: session.StepFeedback{StepID: "current", Action: "skip"}, step: "s1", want: want{status: "skipped", reason: task.StopFeedbackSkip}},
		"skip it by its id":       {f: session.StepFeedback{StepID: "s1", Action: "skip"}, step: "s1", want: want{status: "skipped", reason: task.StopFeedbackSkip}},
		"skip one that waits":     {f: session.StepFeedback{StepID: "s2", Action: "skip"}, step: "s2", want: want{status: "skipped", reason: task.StopCompleted}},
		"skip one that is over":   {f: session.StepFeedback{StepID: "s2", Action: "skip"}, s2: "completed", step: "s2", want: want{status: "completed", reason: task.StopCompleted, ignored: true}},
		"stop":                    {f: session.StepFeedback{StepID: "current", Action: "stop"}, step: "s1", want: want{status: "failed", reason: task.StopFeedbackStop, row: task.Paused}},
		"retry the running step":  {f: session.StepFeedback{StepID: "current", Action: "retry", Message: "m"}, step: "s1", want: want{status: "pending", reason: task.StopFeedbackRetry, says: "[RETRY CONTEXT]: m"}},
		"retry one that is done":  {f: session.StepFeedback{StepID: "s2", Action: "retry", Message: "m"}, s2: "completed", step: "s2", want: want{status: "pending", reason: task.StopCompleted, says: "[RETRY CONTEXT]: m"}},
		"retry one that failed":   {f: session.StepFeedback{StepID: "s2", Action: "retry"}, s2: "failed", step: "s2", want: want{status: "pending", reason: task.StopCompleted}},
		"retry a skipped one":     {f: session.StepFeedback{StepID: "s2", Action: "retry"}, s2: "skipped", step: "s2", want: want{status: "pending", reason: task.StopCompleted}},
		"drift":                   {f: session.StepFeedback{StepID: "current", Action: "drift", Message: "left"}, step: "s1", want: want{status: "in_progress", reason: task.StopCompleted, says: "[USER FEEDBACK]: left"}},
		"drift about another one": {f: session.StepFeedback{StepID: "s2", Action: "drift", Message: "left"}, step: "s2", want: want{status: "pending", reason: task.StopCompleted, says: `[STEP FEEDBACK - Step "s2"]: left`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, task.Config{}, scripted.New(reply("it is done")))
			sp := spec()
			sp.Plan.Steps[0].Status = "in_progress"
			if c.s2 != "" {
				sp.Plan.Steps[1].Status = c.s2
			}
			id := s.working(sp)
			s.alter(id, func(st *session.TaskState) { st.Steps.Current = ptr("s1") }, nil)
			s.with(id, func(r *task.Run) {
				entry, err := s.x.SetStepFeedback(context.Background(), id, c.f) // while somebody works on it
				if err != nil {
					t.Fatal(err)
				}
				if q := s.state(id).Queues; len(q.Feedback) != 1 || q.Feedback[0].ID != entry {
					t.Errorf("it is not shown as waiting: %+v", q)
				}
				out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
				if err != nil || out.StopReason != c.want.reason {
					t.Errorf("ended with %s, %v; want %s", out.StopReason, err, c.want.reason)
				}
				if row, _ := s.x.Get(context.Background(), id); row.Status != orDefault(c.want.row, task.Executing) {
					t.Errorf("the row is %s", row.Status)
				}
			})
			if step, _ := s.state(id).Plan.Step(c.step); step.Status != c.want.status {
				t.Errorf("the step is %s, want %s", step.Status, c.want.status)
			}
			kind := "step_feedback"
			if c.want.ignored {
				kind = "step_feedback_ignored"
			}
			if told := s.only(id, kind).Data; told["action"] != c.f.Action || told["stepId"] != c.step {
				t.Errorf("told %v", told)
			}
			if c.want.says != "" && s.said(id, c.want.says) != 1 {
				t.Errorf("%q was said %d times", c.want.says, s.said(id, c.want.says))
			}
			if q := s.state(id).Queues; len(q.Feedback) != 0 {
				t.Error("it is not consumed")
			}
		})
	}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// A step that failed keeps the task from completing until a person says to skip
// it; a retry takes that back.
func TestStepFeedback_skipWaivesAStepThatFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New(reply("one"), reply("two"), reply("three")))
	sp := spec()
	sp.Plan.Steps[1].Kind = "verification"
	sp.Plan.Steps[1].Status = "failed"
	id := s.working(sp)
	s.alter(id, func(st *session.TaskState) { st.Steps.FailedRequired = session.NewSet("s2") }, nil)
	say := func(action string) session.TaskState {
		s.with(id, func(r *task.Run) {
			if _, err := s.x.SetStepFeedback(context.Background(), id, session.StepFeedback{StepID: "s2", Action: action}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"}); err != nil {
				t.Fatal(err)
			}
		})
		return s.state(id)
	}
	st := say("skip")
	if step := st.Plan.Steps[1]; step.Status != "failed" || !step.Waived || !st.Steps.FailedOptional.Has("s2") || st.Steps.FailedRequired.Has("s2") {
		t.Errorf("the step is %+v, of %+v", step, st.Steps)
	}
	if told := s.only(id, "plan_revised").Data["reason"]; told != "step_feedback_skip" {
		t.Errorf("the plan was revised because of %v", told)
	}
	if w := (task.Wish{Status: task.Completed}).Gated(st); w.Status != task.Completed {
		t.Errorf("it does not complete: %+v", w)
	}
	if say("skip"); len(s.events(id, "step_feedback_ignored")) != 1 {
		t.Error("a second skip was not ignored")
	}
	st = say("retry")
	if step := st.Plan.Steps[1]; step.Status != "pending" || step.Waived || st.Steps.FailedOptional.Has("s2") {
		t.Errorf("after a retry the step is %+v, of %+v", step, st.Steps)
	}
}

// Feedback waits in line: a second does not take the place of the first, and a
// stop comes before all.
func TestStepFeedback_inLineAndStopFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New(reply("it is done")))
	sp := spec()
	sp.Plan.Steps[0].Status = "in_progress"
	id := s.working(sp)
	s.alter(id, func(st *session.TaskState) { st.Steps.Current = ptr("s1") }, nil)
	s.with(id, func(r *task.Run) {
		for _, text := range []string{"one", "two"} {
			if _, err := s.x.SetStepFeedback(context.Background(), id, session.StepFeedback{StepID: "current", Action: "drift", Message: text}); err != nil {
				t.Fatal(err)
			}
		}
		if q := s.state(id).Queues; len(q.Feedback) != 2 || q.Feedback[0].Message != "one" || q.Feedback[1].Message != "two" {
			t.Fatalf("in line are %+v", q)
		}
		if out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"}); err != nil || out.StopReason != task.StopCompleted {
			t.Fatal(out.StopReason, err)
		}
	})
	one, two := s.said(id, "[USER FEEDBACK]: one"), s.said(id, "[USER FEEDBACK]: two")
	if one != 1 || two != 1 {
		t.Errorf("said %d and %d times, want once each", one, two)
	}
	s.with(id, func(r *task.Run) {
		for _, action := range []string{"skip", "stop"} {
			if _, err := s.x.SetStepFeedback(context.Background(), id, session.StepFeedback{StepID: "current", Action: action}); err != nil {
				t.Fatal(err)
			}
		}
		out, _ := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
		if out.StopReason != task.StopFeedbackStop {
			t.Errorf("ended with %s, want the stop first", out.StopReason)
		}
	})
}

// A model that is being asked is left when the task is cancelled.
func TestCancel_breaksOffACall(t *testing.T) {
	t.Parallel()
	var s *site
	model := modelFunc(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
		if _, err := s.x.Cancel(context.WithoutCancel(ctx), "job"); err != nil {
			return llm.Response{}, err
		}
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	})
	s = newSite(t, task.Config{}, model)
	row, err := s.x.Start(context.Background(), spec())
	if err != nil || row.Status != task.Cancelled {
		t.Fatalf("%s, %v; want it cancelled", row.Status, err)
	}
}

type modelFunc func(ctx context.Context, r llm.Request) (llm.Response, error)

func (f modelFunc) Infer(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return f(ctx, r)
}

// A message for a task that has ended is answered in a run of its own, once,
// whichever write fails.
func TestFollowUp_afterTheEndIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	for n, writes := 0, 0; n == 0 || n <= writes; n++ {
		base := newStore(t)
		count, armed := 0, atomic.Bool{} // somebody reads the inbox at the same time
		faulty := storetest.Faulty(base, func(call string, _ int) error {
			if !armed.Load() || call != "Append" && call != "Save" {
				return nil
			}
			if count++; n > 0 && count >= n {
				return errOdd
			}
			return nil
		})
		model := scripted.New(reply("the work is done"), reply("you are welcome"))
		s := newSiteOn(t, faulty, task.Config{Snapshots: task.SnapshotNever}, model)
		id := s.run(oneStep()).ID
		if _, err := s.x.QueueFollowUp(context.Background(), id, session.FollowUp{ID: "f1", Message: "thanks"}); err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		_, err := s.x.Resume(context.Background(), id)
		if (err == nil) != (n == 0) {
			t.Fatalf("write %d failed and the run ended with %v", n, err)
		}
		armed.Store(false)
		if n == 0 {
			writes = count
		} else if s.open(task.Config{}); true {
			if _, err := s.x.Resume(context.Background(), id); err != nil && !errors.Is(err, session.ErrTaskTerminal) {
				t.Fatalf("write %d: %v", n, err)
			}
		}
		row, _ := s.x.Get(context.Background(), id)
		if row.Status != task.Completed || row.Run != 2 || s.said(id, "thanks") != 1 || s.said(id, "you are welcome") != 1 || len(s.events(id, "follow_up_delivered")) != 1 {
			t.Errorf("write %d: the task is %s in run %d; said %d times, answered %d times", n, row.Status, row.Run, s.said(id, "thanks"), s.said(id, "you are welcome"))
		}
	}
}

// A store that fails breaks the loop off; it is not held against the step.
func TestRunStep_failingStoreBreaksItOff(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool // somebody reads the inbox at the same time
	faulty := storetest.Faulty(newStore(t), func(call string, _ int) error {
		if armed.Load() && call == "Append" {
			return errOdd
		}
		return nil
	})
	s := newSiteOn(t, faulty, task.Config{}, scripted.New())
	id := s.working(oneStep())
	_ = s.x.Open(context.Background(), id, func(r *task.Run) error {
		armed.Store(true)
		out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
		if out.StopReason != "" || !errors.Is(err, errOdd) {
			t.Errorf("ended with %s, %v; want it interrupted with the store's error", out.StopReason, err)
		}
		return nil
	})
}
