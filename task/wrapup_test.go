package task_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

// wrapped is a task whose first tool has it wrapped up, with a check that comes
// out as it is told.
func wrapped(t *testing.T, s task.Spec, holds bool, answers ...string) (h *house, checks *int) {
	t.Helper()
	checks = new(int)
	ask := toolOf("ask", tool.Read, tool.ReadOnly, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		_, err := h.x.WrapUp(ctx, "t1")
		return tool.Result{Content: "asked"}, err
	})
	h = newHouse(t, script(append([]string{"call:c1:ask:{}"}, answers...)...), func(c *task.Config) {
		c.Registry = tools{list: []tool.Tool{ask}, check: func(string) (string, bool) {
			*checks++
			return "seen", holds
		}}
	})
	h.start(s)
	return h, checks
}

func checkedJob() task.Spec {
	s := job()
	s.SuccessCriteria = &task.SuccessCriteria{Type: "shell_command", Command: "test"}
	return s
}

func TestWrapUp_theAgentSaysWhereItStands(t *testing.T) {
	t.Parallel()
	h, _ := wrapped(t, job(), true, "half of it is done")
	h.stands("interrupted", "resume_available", "")
	row := h.row()
	if row.ResultSummary != "half of it is done" || !slices.Contains(row.StopReasons, "wrap_up_requested") {
		t.Errorf("the row is %+v", row)
	}
	if !strings.Contains(lastText(h.asked[1]), "[WRAP_UP]") || h.calls() != 2 {
		t.Errorf("asked %d times, at last: %s", h.calls(), lastText(h.asked[1]))
	}
}

func TestWrapUp_itsLastStepIsDoneIfTheCheckSaysSo(t *testing.T) {
	t.Parallel()
	h, checks := wrapped(t, checkedJob(), true, "that is all")
	h.stands("completed", "ok", "")
	if *checks != 1 || h.state().Plan.Steps[0].Status != "completed" {
		t.Errorf("%d checks, the plan is %+v", *checks, h.state().Plan)
	}
}

func TestWrapUp_aCheckThatFailsLeavesItToBeResumed(t *testing.T) {
	t.Parallel()
	h, checks := wrapped(t, checkedJob(), false, "that is all")
	h.stands("interrupted", "resume_available", "")
	if row := h.row(); *checks != 1 || !strings.Contains(row.Error, "criteria") || h.count("verification_failed") != 1 {
		t.Errorf("%d checks, the error is %q", *checks, row.Error)
	}
	h.answer = func(_ context.Context, _ int, _ llm.Request) (llm.Response, error) { return says("now it is"), nil }
	if _, err := h.x.Resume(context.Background(), "t1"); err != nil {
		t.Fatal(err)
	}
	h.stands("failed", "failed", "required_verification") // after all attempts
}

func TestWrapUp_withStepsLeftItCanBeResumed(t *testing.T) {
	t.Parallel()
	s := checkedJob()
	s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "first"}, {ID: "b", Description: "second"}}}
	h, checks := wrapped(t, s, true, "begun")
	h.stands("interrupted", "resume_available", "")
	if steps := h.state().Plan.Steps; *checks != 0 || steps[0].Status != "pending" || steps[1].Status != "pending" {
		t.Errorf("%d checks, the plan is %+v", *checks, steps)
	}
	h.answer = script("", "", "call:c2:ask:{}", "begun again")
	if _, err := h.x.Resume(context.Background(), "t1"); err != nil {
		t.Fatal(err)
	}
	h.stands("interrupted", "resume_available", "")
	if row := h.row(); row.ResultSummary != "begun again" {
		t.Errorf("wrapped up twice it says %q", row.ResultSummary)
	}
	h.answer = func(context.Context, int, llm.Request) (llm.Response, error) { return says("done"), nil }
	if _, err := h.x.Resume(context.Background(), "t1"); err != nil {
		t.Fatal(err)
	}
	h.stands("completed", "ok", "")
}

func TestWrapUp_noToolRunsAfterIt(t *testing.T) {
	t.Parallel()
	h, _ := wrapped(t, job(), true, "call:c2:ask:{}")
	h.stands("interrupted", "resume_available", "")
	if h.count("tool_call") != 1 || h.calls() != 2 {
		t.Errorf("%d calls of tools, %d questions", h.count("tool_call"), h.calls())
	}
}

// A request that comes while the step's last answer is on its way does not
// undo that step.
func TestWrapUp_aStepThatHasEndedIsDone(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := newHouse(t, g.answer)
	s := job()
	s.Plan = &session.Plan{Steps: []session.PlanStep{{ID: "a", Description: "first"}, {ID: "b", Description: "second"}}}
	done := make(chan error, 1)
	go func() {
		_, err := h.x.Start(context.Background(), s)
		done <- err
	}()
	<-g.came
	if _, err := h.x.WrapUp(context.Background(), "t1"); err != nil {
		t.Fatal(err)
	}
	g.pass <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.stands("interrupted", "resume_available", "")
	if plan := h.state().Plan; plan.Steps[0].Status != "completed" || h.calls() != 1 {
		t.Errorf("the plan is %+v, %d questions", plan, h.calls())
	}
}

func TestWrapUp_ofATaskNobodyWorksOn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, want := range map[string]struct {
		holds            bool
		status, terminal string
	}{
		"the check holds":     {true, "completed", "ok"},
		"the check holds not": {false, "interrupted", "resume_available"},
	} {
		_, write := writer()
		h := newHouse(t, script("call:c1:write:{}"), func(c *task.Config) {
			c.Registry = tools{list: []tool.Tool{write}, check: func(string) (string, bool) { return "seen", want.holds }}
		})
		h.start(checkedJob())
		h.stands("blocked", "awaiting_approval", "")
		if _, err := h.x.WrapUp(ctx, "t1"); err != nil {
			t.Fatal(name, err)
		}
		h.stands(want.status, want.terminal, "")
		if open := len(h.waiting()); (open == 0) != want.holds {
			t.Errorf("%s: %d calls wait", name, open)
		}
	}
}
