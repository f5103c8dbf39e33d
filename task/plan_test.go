package task_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

const planAnswer = `Here it is: {"description":"two things","steps":[{"description":"one"},{"description":"check","kind":"verification"},{"description":"x","kind":"odd"}]} Good luck.`

func TestPlan_isAskedOfTheModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []string
		steps   int
		asked   int
	}{
		"at once":        {[]string{planAnswer}, 3, 1},
		"the second try": {[]string{"I would rather not.", planAnswer}, 3, 2},
		"never":          {[]string{"no", `{"steps":[{"description":" "}]}`}, 1, 2},
	} {
		h := newHouse(t, func(_ context.Context, n int, r llm.Request) (llm.Response, error) {
			if n < len(c.answers) {
				return says(c.answers[n]), nil
			}
			return says("done"), nil
		})
		h.start(task.Spec{ID: "t1", Prompt: "do it"})
		h.stands("completed", "ok", "")
		plan := h.state().Plan
		if len(plan.Steps) != c.steps || h.calls() != c.asked+c.steps || h.count("plan_created") != 1 {
			t.Errorf("%s: the plan is %+v, %d questions", name, plan, h.calls())
		}
		if h.row().Projection.LifetimeTurnsUsed != c.asked+c.steps {
			t.Errorf("%s: %d turns are counted", name, h.row().Projection.LifetimeTurnsUsed)
		}
		if c.steps == 1 && plan.Steps[0].Description != "do it" || c.steps == 3 && (plan.Steps[1].Kind != "verification" || plan.Steps[2].Kind != "") {
			t.Errorf("%s: the plan is %+v", name, plan)
		}
	}
}

func TestPlanIn_takesNoHalfPlan(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "no", "}{", `{"steps":[]}`, `{"description":"d"}`, `{"steps":[{}]}`, `[1]`, `{"steps":"a"}`} {
		if plan, ok := task.PlanIn(text); ok {
			t.Errorf("%q is %+v", text, plan)
		}
	}
}

func TestPlan_ofASpecIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script("one", "two"))
	s := job()
	s.Plan = &session.Plan{Description: "mine", Steps: []session.PlanStep{
		{ID: "a", Description: "first", Status: "completed"}, {Description: "second"}, {ID: "step-1", Description: "third"},
	}}
	h.start(s)
	plan := h.state().Plan
	if plan.Description != "mine" || plan.Steps[1].ID != "step-2" || plan.Steps[2].ID != "step-1" || h.count("step_started") != 2 {
		t.Errorf("the plan is %+v", plan)
	}
	if got := lastText(h.asked[0]); got != "Step 2 of 3: second" {
		t.Errorf("the model was told %q", got)
	}
}

func TestPlan_aPlannerThatFailsFailsTheTask(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script(), func(c *task.Config) { c.Planner = broken{} })
	h.start(task.Spec{ID: "t1", Prompt: "do it"})
	h.stands("failed", "failed", "unknown")
	if row := h.row(); row.Error != "no plan today" {
		t.Errorf("the error is %q", row.Error)
	}
}

type broken struct{}

func (broken) Plan(context.Context, task.Spec, []session.Message) (session.Plan, error) {
	return session.Plan{}, errors.New("no plan today")
}

func TestSteps_aFailureThatIsMadeGoodDoesNotCount(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(_ context.Context, _ int, r llm.Request) (llm.Response, error) {
		if lastText(r) == "Step 1 of 2: first" {
			return llm.Response{}, errors.New("the cable is cut")
		}
		return says("done"), nil
	})
	s := job()
	s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "first"}, {ID: "b", Description: "second"}}}
	h.start(s)
	h.stands("completed", "ok", "")
	state := h.state()
	if len(state.Plan.Steps) != 3 || state.Plan.Steps[0].Status != "failed" || state.Plan.Steps[1].Kind != "recovery" || !state.Recovery.Recovered.Has("a") {
		t.Errorf("the plan is %+v, recovery %+v", state.Plan, state.Recovery)
	}
}

func TestSteps_aFailureThatIsNotMadeGoodFailsTheTask(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(context.Context, int, llm.Request) (llm.Response, error) {
		return llm.Response{}, errors.New("the cable is cut")
	})
	s := job()
	s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "first"}, {ID: "b", Description: "second"}}}
	h.start(s)
	h.stands("failed", "failed", "dependency_unavailable")
	if row := h.row(); !strings.Contains(row.Error, "the cable is cut") {
		t.Errorf("the error is %q", row.Error)
	}
}

func TestSteps_quotaPausesAndTheStepCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	empty := true
	h := newHouse(t, func(context.Context, int, llm.Request) (llm.Response, error) {
		if empty {
			return llm.Response{}, &llm.ProviderError{Provider: "p", Status: 402, Message: "no money"}
		}
		return says("done"), nil
	})
	h.start(job())
	h.stands("paused", "needs_user_action", "provider_quota")
	empty = false
	if result, err := h.x.Resume(context.Background(), "t1"); err != nil || result.Row.Status != "completed" || result.Row.TerminalStatus != "ok" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestSuccessCriteria_areTriedAgainAndThenFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		good     int // the attempt that is good
		status   string
		terminal string
		class    string
		attempts int
	}{
		"at once": {1, "completed", "ok", "", 1},
		"later":   {2, "completed", "ok", "", 2},
		"never":   {9, "failed", "failed", "required_verification", 3},
	} {
		runs := 0
		check := func(command string) (string, bool) {
			runs++
			return "ran " + command, runs >= c.good
		}
		h := newHouse(t, func(context.Context, int, llm.Request) (llm.Response, error) {
			return says(strings.Repeat("a long answer ", 20)), nil
		}, func(conf *task.Config) { conf.Registry = tools{check: check} })
		s := job()
		s.SuccessCriteria = &task.SuccessCriteria{Type: "shell_command", Command: "make"}
		h.start(s)
		h.stands(c.status, c.terminal, c.class)
		if runs != c.attempts || h.row().CurrentAttempt != c.attempts || h.count("verification_failed")+h.count("verification_passed") != c.attempts {
			t.Errorf("%s: %d runs, attempt %d", name, runs, h.row().CurrentAttempt)
		}
		if len(h.state().Steps.Evidence) != c.attempts || len(h.state().Plan.Steps) != c.attempts {
			t.Errorf("%s: the plan is %+v", name, h.state().Plan)
		}
	}
}

func TestSuccessCriteria_filesMustBeThere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := &counter{name: "write"}
	h := newHouse(t, func(_ context.Context, n int, _ llm.Request) (llm.Response, error) {
		if n == 1 {
			if err := os.WriteFile(filepath.Join(root, "out.txt"), nil, 0o600); err != nil {
				return llm.Response{}, err
			}
		}
		return says("done"), nil
	}, with(declared{write, tool.Write}))
	s := job()
	s.Workspace = task.Workspace{Root: root}
	s.SuccessCriteria = &task.SuccessCriteria{Type: "file_exists", Paths: []string{"out.txt"}}
	h.start(s)
	h.stands("completed", "ok", "")
	if h.row().CurrentAttempt != 2 {
		t.Errorf("it took %d attempts", h.row().CurrentAttempt)
	}
}

func TestApplyWorkspace_keepsWhatWasDoneAndSwapsTheTools(t *testing.T) {
	t.Parallel()
	ctx, here, there := context.Background(), t.TempDir(), t.TempDir()
	_, old := reader("old")
	h := newHouse(t, script("call:c1:new:{}", "done"), with(old))
	s := job()
	s.Workspace = task.Workspace{ID: "here", Root: here}
	if _, err := h.x.Create(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := h.x.AddRule(ctx, "t1", session.Rule{Source: "session", Effect: "deny", Scope: session.Scope{Kind: "tool", ToolName: "x"}}); err != nil {
		t.Fatal(err)
	}
	fresh, look := reader("new")
	err := h.x.Open(ctx, "t1", func(r *task.Run) error {
		if err := r.Trouble(ctx); err != nil {
			return err
		}
		if err := r.ApplyWorkspace(ctx, task.Workspace{ID: "bad", Root: there}, failing{}); err == nil || r.Place().ID != "here" {
			t.Errorf("a failing swap: %v, in %+v", err, r.Place())
		}
		if err := r.ApplyWorkspace(ctx, task.Workspace{ID: "there", Root: there}, tools{list: []tool.Tool{look}}); err != nil {
			return err
		}
		return r.Perform(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	state, row := h.state(), h.row()
	if fresh.ran() != 1 || row.WorkspaceID != "there" || row.Status != "completed" {
		t.Errorf("the new tool ran %d times, the row is %+v", fresh.ran(), row)
	}
	if state.Loop.Advice != "" || state.Loop.Blocked != nil || state.Tools.PageFailure != nil || state.Recovery.DisabledScope != nil {
		t.Errorf("what belonged to the old workspace is still there: %+v", state.Loop)
	}
	if len(h.permissions().SessionRules) != 1 || state.Loop.LifetimeTurns != 2+7 {
		t.Errorf("what belongs to the task is gone: %+v", h.permissions())
	}
	if h.count("workspace_changed") != 1 {
		t.Errorf("events are %v", h.events())
	}
}

type failing struct{}

func (failing) Tools(context.Context, task.Workspace) ([]tool.Tool, error) {
	return nil, errors.New("no tools here")
}

// A plan that a person sets keeps what has begun.
func TestSetPlan_keepsStepsThatHaveBegun(t *testing.T) {
	t.Parallel()
	h := newSite(t, task.Config{}, scripted.New())
	id := h.create(task.Spec{Prompt: "work", Plan: &session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "one", Status: "completed"}, {ID: "b", Description: "two"}}}})
	if _, err := h.x.SetPlan(t.Context(), id, session.Plan{Steps: []session.PlanStep{{ID: "c", Description: "three"}}}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a plan without what has begun: %v", err)
	}
	if _, err := h.x.SetPlan(t.Context(), id, session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "other", Status: "pending"}, {ID: "c", Description: "three", Status: "completed"}}}); err != nil {
		t.Fatal(err)
	}
	plan := h.state(id).Plan
	if len(plan.Steps) != 2 || plan.Steps[0].Description != "one" || plan.Steps[0].Status != "completed" || plan.Steps[1].Status != "pending" {
		t.Errorf("%+v", plan)
	}
}
