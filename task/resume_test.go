package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
)

// gate is a model that waits to be let through.
type gate struct {
	came chan struct{}
	pass chan struct{}
}

func newGate() gate { return gate{make(chan struct{}, 100), make(chan struct{})} }

func (g gate) answer(ctx context.Context, _ int, _ llm.Request) (llm.Response, error) {
	g.came <- struct{}{}
	select {
	case <-g.pass:
		return says("done"), nil
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
}

// paused is a task that a user's denial has paused.
func paused(t *testing.T, st *inmem.Store, answer func(context.Context, int, llm.Request) (llm.Response, error)) *house {
	t.Helper()
	_, write := writer()
	h := houseOn(t, st, script("call:c1:write:{}"), with(write))
	h.start(job())
	if _, err := h.respond(h.open().ID, "deny_once", task.RespondOptions{}); err != nil {
		t.Fatal(err)
	}
	h.stands("paused", "needs_user_action", "")
	h.answer = answer
	return h
}

func TestResume_ofManyExactlyOneMovesTheRow(t *testing.T) {
	t.Parallel()
	st, g := inmem.New(inmem.Config{}), newGate()
	one := paused(t, st, g.answer)
	before := one.count("task_resumed")
	_, write := writer()
	other := houseOn(t, st, g.answer, with(write))
	const each = 8
	results := make([]task.ResumeResult, 2*each)
	errs := make([]error, 2*each)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			x := one.x
			if i >= each {
				x = other.x
			}
			results[i], errs[i] = x.Resume(context.Background(), "t1")
		})
	}
	<-g.came
	close(g.pass)
	wg.Wait()
	moved := 0
	for i, r := range results {
		switch {
		case errs[i] == nil && !r.Already:
			moved++
		case errs[i] == nil, errors.Is(errs[i], session.ErrTaskTerminal), errors.Is(errs[i], session.ErrConflict):
		default:
			t.Errorf("%d: %v", i, errs[i])
		}
	}
	if moved != 1 || one.count("task_resumed") != before+1 || one.calls()+other.calls() != 2 {
		t.Errorf("%d moved the row, %d events, %d questions", moved, one.count("task_resumed"), one.calls()+other.calls())
	}
	one.stands("completed", "ok", "")
}

func TestResume_underALiveLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := newHouse(t, g.answer)
	done := make(chan error, 1)
	go func() {
		_, err := h.x.Start(context.Background(), job())
		done <- err
	}()
	<-g.came
	before := h.seq()
	result, err := h.x.Resume(context.Background(), "t1")
	if err != nil || !result.Already || result.Row.Status != "executing" || h.seq() != before {
		t.Errorf("%+v, %v", result, err)
	}
	close(g.pass)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	before = h.seq()
	if _, err := h.x.Resume(context.Background(), "t1"); !errors.Is(err, session.ErrTaskTerminal) || h.seq() != before {
		t.Errorf("a task that has ended: %v", err)
	}
	if _, err := h.x.Resume(context.Background(), "nobody"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("nobody's task: %v", err)
	}
}

func TestStart_theEndOfTheContextInterrupts(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := newHouse(t, g.answer)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := h.x.Start(ctx, job())
		done <- err
	}()
	<-g.came
	cancel()
	if err := <-done; !errors.Is(err, session.ErrInterrupted) {
		t.Errorf("started: %v", err)
	}
	h.stands("interrupted", "resume_available", "")
	if h.state().Plan.Steps[0].Status != "pending" || h.count("task_interrupted") != 1 {
		t.Errorf("the plan is %+v, events %v", h.state().Plan, h.events())
	}
	close(g.pass)
	result, err := h.x.Resume(context.Background(), "t1")
	if err != nil || result.Already || result.Row.Status != "completed" || result.Row.TerminalStatus != "ok" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestCancel_endsATaskThatIsAtWorkElsewhere(t *testing.T) {
	t.Parallel()
	st, g := inmem.New(inmem.Config{}), newGate()
	h := houseOn(t, st, g.answer)
	other := houseOn(t, st, g.answer)
	done := make(chan error, 1)
	go func() {
		_, err := h.x.Start(context.Background(), job())
		done <- err
	}()
	<-g.came
	if _, err := other.x.Cancel(context.Background(), "t1"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("started: %v", err)
	}
	h.stands("cancelled", "", "")
	names := h.events()
	if i := slices.Index(names, "task_cancelled"); i < 1 || names[i-1] != "task_status" {
		t.Errorf("events are %v", names)
	}
	if items, err := h.rt.Inbox(context.Background(), "t1"); err != nil || len(items) != 0 {
		t.Errorf("the cancel is still there: %v, %v", items, err)
	}
	if h.state().Plan.Steps[0].Status != "pending" {
		t.Errorf("the step is %+v", h.state().Plan.Steps[0])
	}
	before := h.seq()
	row, err := h.x.Cancel(context.Background(), "t1")
	if err != nil || row.Status != "cancelled" || h.seq() != before {
		t.Errorf("a second cancel: %+v, %v", row, err)
	}
}

func TestTerminal_rowIsFrozen(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script("done"))
	h.start(job())
	before, row := h.seq(), h.row()
	late := map[string]func() error{
		"resume": func() error { _, err := h.x.Resume(context.Background(), "t1"); return err },
		"continue": func() error {
			_, err := h.x.Continue(context.Background(), "t1", task.ContinueOptions{})
			return err
		},
		"feedback": func() error {
			_, err := h.x.SetStepFeedback(context.Background(), "t1", session.StepFeedback{StepID: "step-1", Action: "retry"})
			return err
		},
		"mode": func() error { return h.x.SetMode(context.Background(), "t1", "plan") },
		"an item": func() error {
			return h.x.Open(context.Background(), "t1", func(r *task.Run) error { return r.ClearVerificationNudge(context.Background()) })
		},
		"checklist": func() error {
			return h.x.Open(context.Background(), "t1", func(r *task.Run) error {
				_, err := r.CreateChecklist(context.Background(), []task.ItemInput{{Title: "x", Status: "pending"}})
				return err
			})
		},
		"workspace": func() error {
			return h.x.Open(context.Background(), "t1", func(r *task.Run) error {
				return r.ApplyWorkspace(context.Background(), task.Workspace{ID: "w", Root: t.TempDir()}, nil)
			})
		},
	}
	for name, try := range late {
		if err := try(); err != nil && !errors.Is(err, session.ErrTaskTerminal) || err == nil && name != "an item" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.seq() != before || h.row().UpdatedAt != row.UpdatedAt {
		t.Error("something was written")
	}
}

func TestFollowUp_onAnEndedTaskOpensANewRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script("done", "you are welcome"))
	h.start(job())
	id, err := h.x.QueueFollowUp(context.Background(), "t1", session.FollowUp{Message: "thanks", ID: "f1"})
	if err != nil || id != "f1" {
		t.Fatalf("%s, %v", id, err)
	}
	row := h.row()
	if row.Status != "executing" || row.Run != 2 || row.CompletedAt != 0 || row.TerminalStatus != "" || len(row.StopReasons) != 0 {
		t.Errorf("the row is %+v", row)
	}
	if again, err := h.x.QueueFollowUp(context.Background(), "t1", session.FollowUp{Message: "thanks", ID: "f1"}); err != nil || again != id || h.row().Run != 2 {
		t.Errorf("again: %s, %v, run %d", again, err, h.row().Run)
	}
	result, err := h.x.Resume(context.Background(), "t1")
	if err != nil || result.Row.Status != "completed" || result.Row.ResultSummary != "you are welcome" || result.Row.Run != 2 {
		t.Errorf("%+v, %v", result, err)
	}
	if got := lastText(h.asked[1]); got != "thanks" {
		t.Errorf("the model was told %q", got)
	}
	if h.count("follow_up_delivered") != 1 || h.count("task_completed") != 2 {
		t.Errorf("events are %v", h.events())
	}
	var told string
	for e := range h.rt.Log(context.Background(), "t1", 0) {
		if event, ok := e.Change.(session.TaskEvent); ok && event.Name == "task_resumed" && told == "" {
			told = string(event.Data)
		}
	}
	if told != `{"message":"Task resumed","newRunStarted":true,"previousStatus":"completed"}` {
		t.Errorf("the new run is told as %s", told)
	}
}

func TestRetry_makesFailedStepsPendingAndOpensANewRun(t *testing.T) {
	t.Parallel()
	fails := true
	h := newHouse(t, func(_ context.Context, _ int, r llm.Request) (llm.Response, error) {
		if fails && strings.Contains(lastText(r), "second") {
			return llm.Response{}, errors.New("needs user input")
		}
		return says("done"), nil
	})
	s := job()
	s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "first"}, {ID: "b", Description: "second"}}}
	h.start(s)
	h.stands("failed", "failed", "user_blocker")
	if row := h.row(); !strings.Contains(row.Error, "needs user input") {
		t.Errorf("the error is %q", row.Error)
	}
	fails = false
	row, err := h.x.Retry(context.Background(), "t1")
	if err != nil || row.Status != "completed" || row.TerminalStatus != "ok" || row.Run != 2 {
		t.Errorf("%+v, %v", row, err)
	}
	if h.count("step_started") != 3 {
		t.Errorf("events are %v", h.events())
	}
}

func TestMaxConcurrent_othersWaitInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	g := newGate()
	var mu sync.Mutex
	var order []string
	h := newHouse(t, func(ctx context.Context, n int, r llm.Request) (llm.Response, error) {
		mu.Lock()
		order = append(order, r.SessionID)
		mu.Unlock()
		return g.answer(ctx, n, r)
	}, func(c *task.Config) { c.MaxConcurrent = 1 })
	var wg sync.WaitGroup
	begin := func(id string) {
		s := job()
		s.ID = id
		wg.Go(func() {
			if row, err := h.x.Start(context.Background(), s); err != nil || row.Status != "completed" {
				t.Errorf("%s: %+v, %v", id, row, err)
			}
		})
	}
	begin("t1")
	<-g.came
	for i := 2; i <= 5; i++ {
		id := fmt.Sprintf("t%d", i)
		begin(id)
		h.until(id, "queued")
	}
	for range 4 {
		g.pass <- struct{}{}
		<-g.came
	}
	close(g.pass)
	wg.Wait()
	if !slices.Equal(order, []string{"t1", "t2", "t3", "t4", "t5"}) {
		t.Errorf("they ran as %v", order)
	}
	if h.count("task_queued") != 0 {
		t.Error("the first one was queued")
	}
}

// until waits for a task's status.
func (h *house) until(id, status string) {
	h.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		row, err := h.x.Get(ctx, id)
		if err == nil && row.Status == status {
			return
		}
		if err != nil && !errors.Is(err, session.ErrNotFound) {
			h.Fatal(err)
		}
		if h.Failed() {
			return
		}
		yieldNow()
	}
}

func TestFollowUp_aWishForTheRunBeforeMeansNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script("done", "again"))
	h.start(job())
	for _, kind := range []store.ItemKind{store.ItemCancel, store.ItemWrapUp} { // they came when it had ended
		if _, err := h.rt.Post(context.Background(), "t1", store.Item{Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.x.QueueFollowUp(context.Background(), "t1", session.FollowUp{Message: "go on"}); err != nil {
		t.Fatal(err)
	}
	result, err := h.x.Resume(context.Background(), "t1")
	if err != nil || result.Row.Status != "completed" || result.Row.ResultSummary != "again" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestSetStepFeedback_knowsItsSteps(t *testing.T) {
	t.Parallel()
	h, _ := asked(t)
	ctx := context.Background()
	if _, err := h.x.SetStepFeedback(ctx, "t1", session.StepFeedback{StepID: "nobody", Action: "skip"}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a step there is not: %v", err)
	}
	if _, err := h.x.SetStepFeedback(ctx, "t1", session.StepFeedback{StepID: "step-1", Action: "dance"}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an action there is not: %v", err)
	}
	if _, err := h.x.SetStepFeedback(ctx, "t1", session.StepFeedback{StepID: "current", Action: "skip"}); err != nil {
		t.Fatal(err)
	}
	if step := h.state().Plan.Steps[0]; step.Status != "skipped" || h.count("step_skipped") != 1 {
		t.Errorf("the step is %+v", step)
	}
}

// plain is a store that can do nothing but keep sessions.
type plain struct{ store.Store }

func TestNew_refusesAStoreThatCannotHoldTasks(t *testing.T) {
	t.Parallel()
	rt, err := holdfast.New(holdfast.Config{Store: plain{inmem.New(inmem.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.New(rt, task.Config{}); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("made: %v", err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}
