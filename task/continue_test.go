package task_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

var windowOver = &session.BudgetError{Kind: session.BudgetTurns, Used: 1, Max: 1}

// failures are n equal errors of a tool, with progress enough beside them that
// nothing else stands in the way.
func failures(t *testing.T, n int, progress int) []session.Change {
	var list []session.Change
	for range n {
		list = append(list, taskEvent(t, "tool_error", map[string]any{"callId": "c", "tool": "get", "input": map[string]any{"b": 1, "a": 2}, "error": "down"}))
	}
	for i := range progress {
		list = append(list, taskEvent(t, "file_created", map[string]any{"path": fmt.Sprint(i)}))
	}
	return list
}

func TestAutoContinue_blockReasonsInOrder(t *testing.T) {
	t.Parallel()
	// Each row is blocked for its reason though all later ones hold as well.
	for name, c := range map[string]struct {
		budget  task.Budget
		state   func(*session.TaskState)
		done    bool // no step is pending
		errors  int
		writes  int
		reason  string
		breaker bool
		quiet   bool
		loop    bool
	}{
		"1 it is off": {
			budget: task.Budget{AutoContinuation: ptr(false), LifetimeTurns: 1}, state: func(s *session.TaskState) { s.Loop.LifetimeTurns = 1 },
			done: true, errors: 9, reason: "Auto continuation is disabled.", quiet: true,
		},
		"2 the life is over": {
			budget: task.Budget{LifetimeTurns: 7}, state: func(s *session.TaskState) { s.Loop.LifetimeTurns = 7 },
			done: true, errors: 9, reason: "Lifetime turn limit reached (7/7).",
		},
		"3 nothing is left": {
			budget: task.Budget{NoProgressBreaker: 1}, done: true, errors: 9, reason: "No pending plan steps remain to continue.",
		},
		"4 the breaker": {
			budget: task.Budget{NoProgressBreaker: 3, MaxAutoContinuations: ptr(0)}, state: func(s *session.TaskState) { s.Loop.NoProgress = 2 },
			errors: 9, reason: "No-progress circuit breaker reached (3/3).", breaker: true,
		},
		"5 continuations are used up": {
			state: func(s *session.TaskState) { s.Loop.Continuations = 5 }, errors: 9, reason: "Auto continuation limit reached (5/5).",
		},
		"6 a loop":            {errors: 6, reason: "Loop fingerprint repeated too often (6/6).", loop: true},
		"7 a risk":            {errors: 3, writes: 9, reason: "Loop risk is high (1.00). Try changing strategy or constraints."},
		"8 too little":        {budget: task.Budget{MinProgressScore: ptr(0.2)}, writes: 1, reason: "Recent progress score (0.15) is below threshold (0.20)."},
		"8 nothing at all":    {reason: "Recent progress score (0.00) is below threshold (0.15)."},
		"8 a threshold given": {budget: task.Budget{MinProgressScore: ptr(0.5)}, writes: 2, reason: "Recent progress score (0.30) is below threshold (0.50)."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, task.Config{}, scripted.New())
			sp := spec()
			sp.Budget = &c.budget
			if c.done {
				sp.Plan.Steps[0].Status, sp.Plan.Steps[1].Status = "completed", "skipped"
			}
			id := s.working(sp)
			if c.state != nil {
				s.alter(id, c.state, nil)
			}
			if list := failures(t, c.errors, c.writes); len(list) > 0 {
				s.write(id, list...)
			}
			s.with(id, func(r *task.Run) {
				went, err := r.AutoContinue(context.Background(), fmt.Errorf("stopped: %w", windowOver))
				if went || err != nil {
					t.Fatalf("it went on: %v, %v", went, err)
				}
			})
			decided := s.only(id, "continuation_decision").Data
			if decided["allowed"] != false || decided["reason"] != c.reason {
				t.Fatalf("allowed %v for %q, want blocked for %q", decided["allowed"], decided["reason"], c.reason)
			}
			fields := []string{
				"allowed", "continuationCount", "continuationWindow", "dominantFingerprint", "loopCriticalThreshold", "loopRiskIndex",
				"loopWarningThreshold", "maxAutoContinuations", "noProgressStreak", "policy", "progressScore", "progressThreshold", "reason",
				"repeatedFingerprintCount",
			}
			if got := slices.Sorted(maps.Keys(decided)); !slices.Equal(got, fields) {
				t.Errorf("the decision has %v, want %v", got, fields)
			}
			if n := len(s.events(id, "safety_stop_triggered")); (n == 0) != c.quiet {
				t.Errorf("%d safety stops", n)
			}
			if n := len(s.events(id, "no_progress_circuit_breaker")); (n == 1) != c.breaker {
				t.Errorf("%d events of the breaker", n)
			}
			if blocked := s.only(id, "auto_continuation_blocked").Data; blocked["reason"] != c.reason {
				t.Errorf("blocked for %v", blocked["reason"])
			}
			hint := s.only(id, "error").Data
			if hint["errorCode"] != "TURN_LIMIT_EXCEEDED" || hint["actionHint"].(map[string]any)["type"] != "continue_task" {
				t.Errorf("error %v", hint)
			}
			got, err := s.x.Get(context.Background(), id)
			if err != nil || got.Status != task.Paused || got.TerminalStatus != task.TerminalNeedsUser || got.FailureClass != task.ClassBudget ||
				got.AutoContinueBlockReason != c.reason || got.LastProgressScore == nil {
				t.Errorf("the row is %+v, %v", got, err)
			}
			state := s.state(id)
			if (state.Loop.Blocked != nil) != c.loop || (state.Loop.BlockedText != nil) != c.loop {
				t.Errorf("blocked loop %v", state.Loop.Blocked)
			}
			if c.errors > 0 && state.Loop.Fingerprint != `get::{"a":2,"b":1}::down` {
				t.Errorf("last fingerprint %q", state.Loop.Fingerprint)
			}
		})
	}
}

func TestAutoContinue_onlyForTheWindow(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.working(spec())
	before := len(s.events(id))
	s.with(id, func(r *task.Run) {
		for _, cause := range []error{
			nil, errors.New(windowOver.Error()), &session.BudgetError{Kind: session.BudgetLifetime}, context.Canceled,
		} {
			if went, err := r.AutoContinue(context.Background(), cause); went || err != nil {
				t.Errorf("%v: %v, %v; want nothing done", cause, went, err)
			}
		}
	})
	if after := len(s.events(id)); after != before {
		t.Errorf("%d changes were written", after-before)
	}
}

// A streak is counted once for a window, however often it is looked at.
func TestAutoContinue_streakOncePerWindow(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	id := s.working(spec())
	for range 3 {
		s.alter(id, nil, func(r *session.TaskRow) { r.Status, r.TerminalStatus = task.Executing, "" })
		s.with(id, func(r *task.Run) {
			if _, err := r.AutoContinue(context.Background(), windowOver); err != nil {
				t.Fatal(err)
			}
		})
		if got := s.state(id).Loop; got.NoProgress != 1 || got.NoProgressWindow != 1 {
			t.Fatalf("streak %d of window %d, want 1 of 1", got.NoProgress, got.NoProgressWindow)
		}
		s.open(task.Config{})
	}
}

// With the defaults a loop is warned of before it is stopped: at two repeats
// the task goes on, and is told to change its way.
func TestAutoContinue_warningIsReachable(t *testing.T) {
	t.Parallel()
	model := scripted.New(reply("first done"), reply("second done"))
	s := newSite(t, task.Config{}, model)
	id := s.working(spec())
	s.alter(id, func(st *session.TaskState) {
		st.Loop.Turns, st.Loop.Iterations, st.Usage.Input = 4, 4, 100
	}, nil)
	s.write(id, append(failures(t, 2, 9), taskEvent(t, "tool_error", map[string]any{"callId": "c", "tool": "put", "error": "full"}))...)
	s.with(id, func(r *task.Run) {
		went, err := r.AutoContinue(context.Background(), windowOver)
		if !went || err != nil {
			t.Fatalf("%v, %v; want it to go on", went, err)
		}
	})
	told := s.only(id, "step_contract_escalated").Data
	if told["reason"] != "loop_warning_threshold_reached" || told["repeatedFingerprintCount"] != 2.0 || told["threshold"] != 2.0 {
		t.Errorf("%v", told)
	}
	if d := s.only(id, "continuation_decision").Data; d["allowed"] != true || d["reason"] != "Continuation approved." || d["continuationWindow"] != 1.0 {
		t.Errorf("decision %v", d)
	}
	if d := s.only(id, "auto_continuation_started").Data; d["continuationCount"] != 1.0 || d["continuationWindow"] != 2.0 || d["mode"] != "auto" {
		t.Errorf("started %v", d)
	}
	reset := s.only(id, "budget_reset_for_continuation").Data
	if reset["reason"] != "turn_limit_exhausted" || reset["mode"] != "auto" || reset["previousUsageTotals"].(map[string]any)["totalTokens"] != 100.0 {
		t.Errorf("reset %v", reset)
	}
	state := s.state(id)
	if state.Loop.Advice != "" {
		t.Error("the hint was not used up")
	}
	if state.Usage.EarlierInput != 100 || state.Usage.Input != 20 || state.Loop.Turns != 2 || state.Loop.LifetimeTurns != 2 {
		t.Errorf("after the window: %+v, %d turns", state.Usage, state.Loop.Turns)
	}
	context := model.Requests()[0].Messages
	said := context[len(context)-3].Content.Text()
	for _, part := range []string{"TASK CONTINUATION CONTEXT:", "Completed steps (0):", "Remaining steps (2):", "  - [PENDING] first", "failed 2 times"} {
		if !strings.Contains(said, part) {
			t.Errorf("the context lacks %q:\n%s", part, said)
		}
	}
}

// A step that runs into the window's limit is pending again, so that there is
// something to continue, and the task goes on by itself.
func TestStart_windowLimitGoesOnInANewWindow(t *testing.T) {
	t.Parallel()
	write := answers("note", 0, "ok")
	s := newSite(t, task.Config{Registry: kit{write}}, scripted.New(
		replyCalls(callOf("c1", "note", `{"n":1}`)), reply("first done, at length"), reply("second done, at length"),
	))
	sp := spec()
	sp.Budget = &task.Budget{MaxTurns: 1, ContinuationPolicy: task.FixedCaps}
	row, err := s.x.Start(context.Background(), sp)
	if err != nil || row.Status != task.Completed {
		t.Fatalf("%s %s, %v; want it completed", row.Status, row.Error, err)
	}
	if n := len(s.events(row.ID, "auto_continuation_started")); n != 2 {
		t.Errorf("%d continuations, want 2", n)
	}
	if got := row.Projection; got.ContinuationCount != 2 || got.ContinuationWindow != 3 || got.LifetimeTurnsUsed != 3 {
		t.Errorf("the row shows %+v", got)
	}
}

// At the end of its continuations a task is paused with its step pending, not
// failed, and goes on when a person says so.
func TestContinue_manualAfterABlock(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New(replyCalls(callOf("c1", "task_list_list", `{}`)), reply("first done, at length"), reply("second done, at length")))
	sp := spec()
	sp.Budget = &task.Budget{MaxTurns: 2, AutoContinuation: ptr(false)}
	row, err := s.x.Start(context.Background(), sp)
	if err != nil || row.Status != task.Paused || row.AutoContinueBlockReason != "Auto continuation is disabled." {
		t.Fatalf("%s (%s), %v; want it paused", row.Status, row.AutoContinueBlockReason, err)
	}
	if step, _ := s.state(row.ID).Plan.Step("s2"); step.Status != "pending" {
		t.Fatalf("the step is %s, want pending", step.Status)
	}
	s.with(row.ID, func(r *task.Run) {
		if err := r.Continue(context.Background(), task.ContinueManual, task.ContinueOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	decisions := s.events(row.ID, "continuation_decision")
	last := decisions[len(decisions)-1].Data
	if len(decisions) != 2 || last["allowed"] != true || last["reason"] != "Manual continuation requested by user." || len(last) != 14 {
		t.Errorf("decisions %v", decisions)
	}
	if reset := s.only(row.ID, "budget_reset_for_continuation").Data; reset["mode"] != "manual" || reset["continuationCount"] != 1.0 {
		t.Errorf("reset %v", reset)
	}
	got, _ := s.x.Get(context.Background(), row.ID)
	if got.Status != task.Completed || got.AutoContinueBlockReason != "" {
		t.Errorf("the task is %s (%s), want completed", got.Status, got.AutoContinueBlockReason)
	}
}

func TestContinue_refusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget task.Budget
		state  func(*session.TaskState)
		noPlan bool
		raise  task.ContinueOptions
		kind   string
		err    error
	}{
		"without a plan": {noPlan: true, err: session.ErrNoPlan},
		"lifetime": {
			budget: task.Budget{LifetimeTurns: 5}, state: func(s *session.TaskState) { s.Loop.LifetimeTurns = 5 },
			raise: task.ContinueOptions{LifetimeTurns: 50}, kind: session.BudgetLifetime, err: session.ErrBudget,
		},
		"tokens": {
			budget: task.Budget{MaxTokens: ptr(int64(5))}, state: func(s *session.TaskState) { s.Usage.Output = 5 },
			raise: task.ContinueOptions{MaxTokens: ptr(int64(500))}, kind: session.BudgetTokens, err: session.ErrBudget,
		},
		"cost": {
			budget: task.Budget{MaxCost: ptr(0.5)}, state: func(s *session.TaskState) { s.Usage.Cost = 1 },
			raise: task.ContinueOptions{MaxCost: ptr(5.0)}, kind: session.BudgetCost, err: session.ErrBudget,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, task.Config{}, scripted.New(reply("first done, at length"), reply("second done, at length")))
			sp := spec()
			sp.Budget = &c.budget
			if c.noPlan {
				sp.Plan = nil
			}
			id := s.working(sp)
			if c.state != nil {
				s.alter(id, c.state, nil)
			}
			before := len(s.events(id))
			s.with(id, func(r *task.Run) {
				err := r.Continue(context.Background(), task.ContinueManual, task.ContinueOptions{})
				var over *session.BudgetError
				if !errors.Is(err, c.err) || errors.As(err, &over) && over.Kind != c.kind {
					t.Fatalf("%v, want %v of kind %q", err, c.err, c.kind)
				}
			})
			if after := len(s.events(id)); after != before {
				t.Fatalf("a refused call wrote %d changes", after-before)
			}
			if c.noPlan {
				return
			}
			s.with(id, func(r *task.Run) {
				if err := r.Continue(context.Background(), task.ContinueManual, c.raise); err != nil {
					t.Errorf("raised, it is still refused: %v", err)
				}
			})
			if row, _ := s.x.Get(context.Background(), id); row.Status != task.Completed {
				t.Errorf("the task is %s, want completed", row.Status)
			}
		})
	}
}

func TestWindowReset_clearsWhatCountedForTheWindow(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	sp := spec()
	sp.Plan.Steps[0].Status, sp.Plan.Steps[1].Status = "completed", "completed" // nothing is left to run
	id := s.working(sp)
	s.alter(id, func(st *session.TaskState) {
		l := &st.Loop
		l.Turns, l.LifetimeTurns, l.Iterations, l.Continuations, l.Window = 5, 9, 6, 1, 2
		l.SoftDeadline, l.WrapUp, l.LowTurnsNoted, l.LandingNoted = true, true, true, true
		l.Blocked, l.BlockedText = &session.Signature{Tool: "a", Input: "{}"}, ptr("a::{}::e")
		st.Usage = session.TaskUsage{Input: 3, Output: 4, Cost: 0.5, EarlierInput: 10, EarlierOutput: 20, EarlierCost: 1}
	}, nil)
	s.with(id, func(r *task.Run) {
		if err := r.Continue(context.Background(), task.ContinueManual, task.ContinueOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	state := s.state(id)
	l := state.Loop
	if l.Turns != 0 || l.Iterations != 0 || l.LifetimeTurns != 9 || l.Continuations != 2 || l.Window != 3 {
		t.Errorf("counts %+v", l)
	}
	if l.SoftDeadline || l.WrapUp || l.LowTurnsNoted || l.LandingNoted || l.Blocked != nil || l.BlockedText != nil {
		t.Errorf("what counted for the window counts still: %+v", l)
	}
	if want := (session.TaskUsage{EarlierInput: 13, EarlierOutput: 24, EarlierCost: 1.5}); state.Usage != want {
		t.Errorf("usage %+v, want %+v", state.Usage, want)
	}
	reset := s.only(id, "budget_reset_for_continuation")
	if l.WindowStart == 0 || l.WindowStart >= reset.Seq {
		t.Errorf("the window starts after %d, and its reset is %d", l.WindowStart, reset.Seq)
	}
}

func TestRunFollowUp_windowIsRenewedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, loops())
	sp := spec()
	sp.Budget = &task.Budget{MaxTurns: 2}
	id := s.working(sp)
	full := func() { s.alter(id, func(st *session.TaskState) { st.Loop.Turns = 2 }, nil) }
	full()
	if _, err := s.x.QueueFollowUp(context.Background(), id, session.FollowUp{ID: "follow", Message: "go"}); err != nil {
		t.Fatal(err)
	}
	// The model uses up the window again and again.
	s.with(id, func(r *task.Run) {
		out, err := r.RunFollowUp(context.Background(), session.FollowUp{ID: "follow", Message: "go"}, task.Caps{MaxIterations: 2})
		if out.StopReason != task.StopIterations || err != nil {
			t.Fatalf("ended with %s, %v; the window should have been renewed", out.StopReason, err)
		}
	})
	started := s.only(id, "follow_up_turn_recovery_started").Data
	want := []string{
		"attempt", "canRecover", "continuationCount", "lifetimeTurnsUsed", "maxAttempts", "maxAutoContinuations", "maxLifetimeTurns", "policy",
		"turnsUsed", "windowTurnCap",
	}
	if got := slices.Sorted(maps.Keys(started)); !slices.Equal(got, want) || started["canRecover"] != true {
		t.Errorf("started with %v", started)
	}
	reset := s.only(id, "budget_reset_for_continuation").Data
	if reset["mode"] != "follow_up" || reset["reason"] != "follow_up_turn_limit_recovery" || reset["continuationWindow"] != 2.0 {
		t.Errorf("reset %v", reset)
	}
	s.only(id, "follow_up_turn_recovery_completed")

	full()
	s.with(id, func(r *task.Run) {
		out, err := r.RunFollowUp(context.Background(), session.FollowUp{ID: "follow", Message: "go"}, task.Caps{MaxIterations: 100})
		if out.StopReason != task.StopTurnLimit || !errors.Is(err, session.ErrBudget) {
			t.Errorf("a second time it ended with %s, %v; want turn_limit", out.StopReason, err)
		}
	})
	blocked := s.only(id, "follow_up_turn_recovery_blocked").Data
	if state := s.state(id); state.Loop.FollowUpBlock != blocked["reason"] || blocked["reason"] == "" {
		t.Errorf("blocked for %v, kept %q", blocked["reason"], state.Loop.FollowUpBlock)
	}
}
