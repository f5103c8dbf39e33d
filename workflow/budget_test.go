package workflow_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

// within is a spec of three steps with budgets.
func within(budgets string) string {
	return strings.Replace(head, "model_id: m,", "model_id: m, budgets: {"+budgets+"},", 1) + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: b, input: two}, {agent: a, input: three}]}}
`
}

func TestBudget_tokensAreCommittedThenTheRunFails(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo) // 15 tokens a call
	over := s.fails(workflow.KindBudget, "", "max_tokens", "30 of 25", "--accept-changes")
	over(s.start(within("max_tokens: 25")))
	if step, _ := s.state().Pattern.Get("current_step"); step != 2 {
		t.Errorf("the step that was paid for is lost: %v", step)
	}
	over(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 2 {
		t.Errorf("%d calls", s.calls())
	}
	s.rewrite(within("max_tokens: 45"))
	over(s.resume(workflow.ResumeOptions{})) // the snapshot counts
	s.completes("re: three")(s.resume(workflow.ResumeOptions{AcceptChanges: true}))
	s.wantInputs("one", "two", "three")
}

func TestBudget_usedUpByTheLastUnitFailsAlsoWhenResumed(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	over := s.fails(workflow.KindBudget, "", "45 of 44")
	over(s.start(within("max_tokens: 44")))
	over(s.resume(workflow.ResumeOptions{}))
	s.rewrite(within("max_tokens: 45"))
	s.completes("re: three")(s.resume(workflow.ResumeOptions{AcceptChanges: true}))
	if s.calls() != 3 {
		t.Errorf("%d calls", s.calls())
	}
}

func TestBudget_exactlyUsedUpIsEnough(t *testing.T) {
	t.Parallel()
	for _, budgets := range []string{"max_tokens: 45", "max_steps: 3"} {
		s := newScene(t, echo)
		s.completes("re: three")(s.start(within(budgets)))
	}
}

func TestBudget_stepsCountOverAllResumes(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	over := s.fails(workflow.KindBudget, "", "max_steps", "2 of 2")
	over(s.start(within("max_steps: 2")))
	over(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 2 {
		t.Errorf("%d calls", s.calls())
	}
}

func TestBudget_stepsCountUnitsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(r llm.Request) (llm.Response, error) {
			time.Sleep(time.Second) // until every task has tried to begin
			return echo(r)
		})
		s.fails(workflow.KindBudget, "", "max_steps")(s.start(strings.Replace(head, "model_id: m,", "model_id: m, budgets: {max_steps: 2},", 1) + `
agents: {a: {prompt: A}}
pattern: {type: workflow, config: {tasks: [{id: a, agent: a, input: a}, {id: b, agent: a, input: b}, {id: c, agent: a, input: c}, {id: d, agent: a, input: d}]}}
`))
		if s.calls() != 2 {
			t.Errorf("%d calls", s.calls())
		}
		if done, _ := s.state().Pattern.Get("completed_tasks"); len(done.([]string)) != 2 {
			t.Errorf("done: %v", done)
		}
	})
}

func TestBudget_warnsOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: three")(s.start(within("max_tokens: 50, max_steps: 4, warn_threshold: 0.5")))
	told := s.reported()
	if strings.Count(told, "budget_warning") != 1 || !strings.Contains(told, "step_complete step/1, budget_warning max_steps, step_start step/2") {
		t.Errorf("told: %s", told)
	}
}

func TestBudget_durationLeavesPausesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, func(r llm.Request) (llm.Response, error) {
			time.Sleep(4 * time.Second)
			return echo(r)
		})
		asks := strings.Replace(within("max_duration_s: 10"), "{agent: b, input: two}", "{type: hitl, prompt: p}, {agent: b, input: two}", 1)
		s.pauses("p")(s.start(asks))
		time.Sleep(time.Hour)
		// The call that is under way when the time is over is broken off.
		s.fails(workflow.KindBudget, "step/3", "max_duration_s")(s.answer("y"))
		s.fails(workflow.KindBudget, "", "max_duration_s")(s.resume(workflow.ResumeOptions{}))
		if s.calls() != 3 {
			t.Errorf("%d calls", s.calls())
		}
		s.rewrite(strings.Replace(asks, "10", "20", 1))
		s.completes("re: three")(s.resume(workflow.ResumeOptions{AcceptChanges: true}))
	})
}

func TestBudget_isCheckedBetweenToolRounds(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		return calling("look"), nil // for ever
	})
	var ran atomic.Int64
	s.host.Tools = toolbox(counter("look", &ran))
	s.fails(workflow.KindBudget, "step/0", "max_tokens", "30 of 25")(s.start(within("max_tokens: 25")))
	if s.calls() != 2 || ran.Load() != 2 {
		t.Errorf("%d calls, %d tools", s.calls(), ran.Load())
	}
}
