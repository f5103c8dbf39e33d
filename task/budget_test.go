package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// Each budget stops the loop with its own reason, and of several that are used
// up the first in the list is the one that is named.
func TestBudgets_stopInOrder(t *testing.T) {
	t.Parallel()
	used := []struct {
		kind  string
		most  float64
		state func(*session.TaskState)
	}{
		{session.BudgetLifetime, 9, func(s *session.TaskState) { s.Loop.LifetimeTurns = 9 }},
		{session.BudgetFuse, 2000, func(s *session.TaskState) { s.Loop.Turns = 2000 }},
		{session.BudgetTurns, 3, func(s *session.TaskState) { s.Loop.Turns = max(s.Loop.Turns, 3) }},
		{session.BudgetIterations, 100, func(s *session.TaskState) { s.Loop.Iterations = 100 }},
		{session.BudgetTokens, 50, func(s *session.TaskState) { s.Usage.EarlierInput, s.Usage.Output = 20, 30 }},
		{session.BudgetCost, 0.5000, func(s *session.TaskState) { s.Usage.EarlierCost, s.Usage.Cost = 0.25, 0.25 }},
	}
	for first := range used {
		t.Run(used[first].kind, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, task.Config{}, scripted.New())
			sp := spec()
			sp.Budget = &task.Budget{MaxTurns: 3, LifetimeTurns: 9, MaxTokens: ptr(int64(50)), MaxCost: ptr(0.5)}
			id := s.working(sp)
			s.alter(id, func(state *session.TaskState) {
				for _, u := range used[first:] { // all that come after it are used up too
					u.state(state)
				}
			}, nil)
			s.with(id, func(r *task.Run) {
				out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
				var over *session.BudgetError
				if !errors.As(err, &over) || over.Kind != used[first].kind || string(out.StopReason) != used[first].kind {
					t.Fatalf("ended with %s, %v; want %s", out.StopReason, err, used[first].kind)
				}
				if over.Used != used[first].most || over.Max != used[first].most {
					t.Errorf("%v of %v are used, want %v", over.Used, over.Max, used[first].most)
				}
				if out.LoopBudgetStop != "" {
					t.Errorf("a budget of the task counts as a cap of the loop: %s", out.LoopBudgetStop)
				}
				if out.Iterations != 0 || out.LLMCalls != 0 {
					t.Errorf("the pass went on: %+v", out)
				}
			})
			if fuses := s.events(id, "safety_stop_triggered"); len(fuses) > 0 != (used[first].kind == session.BudgetFuse) {
				t.Errorf("%d safety stops", len(fuses))
			}
		})
	}
}

// The fuse holds also where a window has no cap.
func TestBudgets_fuseWithoutAWindow(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New())
	sp := spec()
	sp.Budget = &task.Budget{LifetimeTurns: 9000}
	id := s.working(sp)
	s.alter(id, func(state *session.TaskState) { state.Loop.Turns = 2000 }, nil)
	s.with(id, func(r *task.Run) {
		if out, _ := r.RunStep(context.Background(), task.StepInput{StepID: "s1"}); out.StopReason != task.StopFuse {
			t.Errorf("ended with %s, want emergency_fuse", out.StopReason)
		}
	})
	told := s.only(id, "safety_stop_triggered").Data
	if told["reason"] != "emergency_turn_fuse_exceeded" || told["taskId"] != id || told["turnsUsed"] != 2000.0 ||
		told["emergencyFuseMaxTurns"] != 2000.0 || told["policy"] != task.AdaptiveUnbounded || len(told["nextActions"].([]any)) != 3 {
		t.Errorf("safety stop %v", told)
	}
}

func TestBudgets_softWindowIsToldOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, task.Config{}, scripted.New(replyCalls(callOf("c1", "task_list_list", `{}`)), reply("done"), reply("done too")))
	sp := spec()
	sp.Budget = &task.Budget{MaxTurns: 1, TurnPolicy: task.AdaptiveUnbounded}
	row, err := s.x.Start(context.Background(), sp)
	if err != nil || row.Status != task.Completed {
		t.Fatalf("%s, %v; want it completed", row.Status, err)
	}
	told := s.only(row.ID, "turn_window_soft_exhausted").Data
	if told["turnsUsed"] != 1.0 || told["windowTurnCap"] != 1.0 || told["lifetimeTurnsUsed"] != 1.0 || told["maxLifetimeTurns"] != 2000.0 {
		t.Errorf("%v", told)
	}
}

// A task whose turns run out, with no window to follow, is asked to finish,
// once.
func TestSoftLanding_onceWhenNoContinuationIsLeft(t *testing.T) {
	t.Parallel()
	model := scripted.New(
		replyCalls(callOf("c1", "task_list_list", `{}`)), replyCalls(callOf("c2", "task_list_list", `{}`)), reply("first done"), reply("second done"))
	for name, c := range map[string]struct {
		budget task.Budget
		want   bool
	}{
		"no continuation":            {task.Budget{MaxTurns: 4, MaxAutoContinuations: ptr(0)}, true},
		"a continuation is left":     {task.Budget{MaxTurns: 4}, false},
		"the life of a task is over": {task.Budget{LifetimeTurns: 4}, true},
		"enough turns":               {task.Budget{MaxTurns: 40, MaxAutoContinuations: ptr(0)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, task.Config{}, model)
			sp := spec()
			sp.Budget = &c.budget
			row, err := s.x.Start(context.Background(), sp)
			if err != nil {
				t.Fatal(err)
			}
			notes := 0
			for _, m := range s.messages(row.ID) {
				if strings.HasPrefix(m.Content.Text(), "[TURN_SOFT_LANDING]") {
					notes++
				}
			}
			told := s.events(row.ID, "budget_soft_landing")
			if want := map[bool]int{true: 1, false: 0}[c.want]; notes != want || len(told) != want {
				t.Fatalf("%d notes and %d events, want %d", notes, len(told), want)
			}
			if !c.want {
				return
			}
			d := told[0].Data
			if d["remainingTurns"] != 4.0 || d["reserveTurns"] != 4.0 || d["usedTurns"] != 0.0 || d["lifetimeUsedTurns"] != 0.0 || d["phase"] != "step" {
				t.Errorf("%v", d)
			}
		})
	}
}

// A step that takes too long ends, and the task with what there is.
func TestSoftDeadline_endsTheStepAndTheTask(t *testing.T) {
	t.Parallel()
	var s *site
	slow := sleeper("slow", func() { s.pass(13*time.Minute + 30*time.Second) })
	s = newSite(t, task.Config{Registry: kit{slow}}, scripted.New(replyCalls(callOf("c1", "slow", `{}`)), reply("never asked")))
	row, err := s.x.Start(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	told := s.only(row.ID, "step_timeout").Data
	if told["error"] != "Step soft-deadline reached after 810s" || told["timeout"] != 900_000.0 {
		t.Errorf("%v", told)
	}
	state := s.state(row.ID)
	if !state.Loop.SoftDeadline {
		t.Error("it is not kept that the deadline was reached")
	}
	first, _ := state.Plan.Step("s1")
	second, _ := state.Plan.Step("s2")
	if first.Status != "failed" || second.Status != "pending" {
		t.Errorf("steps are %s and %s, want failed and pending", first.Status, second.Status)
	}
	if row.Status == task.Executing || !slices.Contains(row.StopReasons, "soft_deadline") {
		t.Errorf("the task is %s for %v, want it finished for soft_deadline", row.Status, row.StopReasons)
	}
}

func TestBudget_whatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]task.Budget{
		"warning at critical":    {LoopWarning: 6},
		"warning above critical": {LoopWarning: 4, LoopCritical: 3},
		"negative turns":         {MaxTurns: -1},
		"negative lifetime":      {LifetimeTurns: -1},
		"negative continuations": {MaxAutoContinuations: ptr(-1)},
		"negative tokens":        {MaxTokens: ptr(int64(-1))},
		"negative cost":          {MaxCost: ptr(-1.0)},
		"unknown turn policy":    {TurnPolicy: "soft"},
		"unknown continuation":   {ContinuationPolicy: "always"},
	} {
		if err := b.Check(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if err := (task.Budget{}).Check(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// Money and tokens of a task also bound the subagents of its steps, and what
// they use counts.
func TestBudgets_subagentsShareThem(t *testing.T) {
	t.Parallel()
	helper := toolOf("helper", tool.Read, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "done", Spent: &session.Spent{Steps: 2, Usage: session.Usage{Input: 100, Output: 20}, Cost: session.Dollars(0.3)}}, nil
	})
	s := newSite(t, task.Config{Registry: kit{helper}}, scripted.New(replyCalls(callOf("c1", "helper", `{}`)), reply("never said")))
	sp := spec()
	sp.Budget = &task.Budget{MaxTokens: ptr(int64(1000)), MaxCost: ptr(0.5)}
	id := s.working(sp)
	s.alter(id, func(state *session.TaskState) { state.Usage.EarlierInput, state.Usage.EarlierCost = 400, 0.25 }, nil)
	s.with(id, func(r *task.Run) {
		out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
		var over *session.BudgetError
		if !errors.As(err, &over) || over.Kind != session.BudgetCost || over.Used != 0.55 || out.LLMCalls != 1 {
			t.Errorf("ended with %s after %d requests, %v; want cost_budget after one", out.StopReason, out.LLMCalls, err)
		}
	})
	if u := s.state(id).Usage; u.Input != 110 || u.Output != 25 || u.Cost != 0.3 {
		t.Errorf("counted %+v", u)
	}
	now, err := s.rt.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if b := now.Execution().Budget; b == nil || *b.MaxTokens != 600 || *b.MaxCost != session.Dollars(0.25) {
		t.Errorf("the execution, from which subagents get their share, may use %+v", b)
	}
}

// What a task counts, also outside of its steps, is what its store adds up.
func TestUsage_isWhatTheStoreAddsUp(t *testing.T) {
	t.Parallel()
	priced := func(r scripted.Reply) scripted.Reply {
		r.Cost = session.Dollars(0.1)
		return r
	}
	s := newSite(t, task.Config{}, scripted.New(priced(reply(`{"description":"d","steps":[{"description":"one"},{"description":"two"}]}`)), priced(reply("one is done")), priced(reply("two is done"))))
	sp := spec()
	sp.Plan = nil // the model makes it
	row, err := s.x.Start(t.Context(), sp)
	if err != nil {
		t.Fatal(err)
	}
	u := s.state(row.ID).Usage
	got, err := s.rt.Spending(t.Context(), store.SpendingQuery{By: store.BySession})
	if err != nil || len(got.Groups) != 1 || got.Groups[0].Answers != 3 {
		t.Fatalf("%+v, %v: want the plan and two steps", got, err)
	}
	if g := got.Groups[0]; g.Usage.Input != u.Input || g.Usage.Output != u.Output || g.Cost != session.Dollars(u.Cost) {
		t.Errorf("the store adds up %+v, the task counts %+v", g, u)
	}
}

// A budget that is raised while a step is interrupted counts when it goes on.
func TestBudgets_raisedWhileAStepIsOpen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	look := toolOf("look", tool.Read, tool.ReadOnly, func(context.Context, tool.Call) (tool.Result, error) {
		cancel()
		return tool.Result{Content: "seen"}, nil
	})
	s := newSite(t, task.Config{Registry: kit{look}}, scripted.New(replyCalls(callOf("c1", "look", `{}`)), replyCalls(callOf("c2", "look", `{}`)), reply("done")))
	sp := spec()
	sp.Budget = &task.Budget{MaxTokens: ptr(int64(20))}
	id := s.working(sp)
	s.with(id, func(r *task.Run) {
		if _, err := r.RunStep(ctx, task.StepInput{StepID: "s1"}); err == nil {
			t.Error("the step was not interrupted")
		}
	})
	s.alter(id, func(state *session.TaskState) { state.Settings.Budget = json.RawMessage(`{"maxTokens":500}`) }, nil)
	s.with(id, func(r *task.Run) {
		out, err := r.RunStep(context.Background(), task.StepInput{StepID: "s1"})
		if err != nil || out.StopReason != task.StopCompleted || out.LLMCalls != 3 {
			t.Errorf("ended with %s after %d requests, %v; want it completed after 3", out.StopReason, out.LLMCalls, err)
		}
	})
}
