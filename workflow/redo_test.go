package workflow_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// counting answers with how often it was asked the same.
func counting() func(llm.Request) (llm.Response, error) {
	var mu sync.Mutex
	times := map[string]int{}
	return func(r llm.Request) (llm.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		times[input(r)]++
		return said(fmt.Sprintf("%s %d", input(r), times[input(r)])), nil
	}
}

func (s *scene) redo(unit string) (workflow.Result, error) {
	s.Helper()
	return workflow.Redo(s.Context(), s.rt, s.id, unit, workflow.ResumeOptions{Host: s.host, Out: s.out})
}

func TestRedo_doesAUnitAndAllAfterItAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, counting())
	s.completes("c 1")(s.start(head + `
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{agent: a, input: a}, {agent: a, input: "b {{ steps[0].response }}"}, {agent: a, input: c}]}}
outputs: {artifacts: [{path: all.txt, from: "{% for s in steps %}{{ s.response }};{% endfor %}"}]}`))
	s.completes("c 2")(s.redo("step/1"))
	s.wantInputs("a", "b a 1", "c", "b a 1", "c")
	if got := s.artifact("all.txt"); got != "a 1;b a 1 2;c 2;" {
		t.Errorf("the artifact says %q", got)
	}
	if got := s.asked[3].Messages; len(got) != 3 {
		t.Errorf("the agent remembers %d messages, want those of the first step and the question", len(got))
	}
	st := s.state()
	if st.Usage.Input != 50 || st.Metadata.Status != workflow.StatusCompleted {
		t.Errorf("the run is %s and has used %+v", st.Metadata.Status, st.Usage)
	}
	if got := s.reported(); strings.Count(got, "step_complete step/1") != 2 || strings.Count(got, "step_complete step/0") != 1 {
		t.Errorf("the events are %s", got)
	}
}

func TestRedo_leavesWhatRanAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := newScene(t, counting())
	s.pauses("ok?")(s.start(head + `
agents: {a: {prompt: A.}, b: {prompt: B.}, c: {prompt: C.}}
pattern: {type: parallel, config: {branches: [{id: l, steps: [{agent: a, input: l1}, {agent: a, input: l2}]}, {id: r, steps: [{agent: b, input: r1}, {type: hitl, prompt: "ok?"}]}],
  reduce: {agent: c, input: "{{ branches.l.response }} {{ branches.r.response }}"}}}`))
	s.completes("l2 1 yes 1")(s.answer("yes"))
	s.completes("l2 2 yes 1")(s.redo("branch/l/step/1"))
	if n := s.calls(); n != 6 {
		t.Errorf("%d calls, want two more than the first four", n)
	}
	s.pauses("ok?")(s.redo("branch/r/step/0"))
	s.completes("l2 2 no 1")(s.answer("no"))
}

func TestRedo_namesTheUnitsThereAre(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("ok?")(s.start(head + `
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}, {type: hitl, prompt: "ok?"}, {agent: a, input: y}]}}`))
	before, _ := s.rt.Info(t.Context(), s.id)
	_, err := s.redo("step/2")
	if !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "it has come to: step/0, step/1") {
		t.Errorf("redo: %v", err)
	}
	if after, err := s.rt.Info(t.Context(), s.id); err != nil || after.Version != before.Version {
		t.Errorf("it changed the run to %+v (%v)", after, err)
	}
	s.pauses("ok?")(s.redo("step/1"))
	s.completes("re: y")(s.answer("yes"))
}

// None of the answers can be used: the next attempt asks again.
func TestResume_asksAgainForAnAnswerThatNobodyCouldUse(t *testing.T) {
	t.Parallel()
	const agents = "\nagents: {r: {prompt: R.}, a: {prompt: A.}}\n"
	for name, c := range map[string]struct {
		pattern, good string
		bad           []string
		last          string
	}{
		"router": {`pattern: {type: routing, config: {router: {agent: r, input: "?", max_retries: 1}, routes: {x: {then: [{agent: a, input: x}]}}}}`,
			`{"route": "x"}`, []string{"what", "ever"}, "done"},
		"unknown route": {`pattern: {type: routing, config: {router: {agent: r, input: "?", max_retries: 1}, routes: {x: {then: [{agent: a, input: x}]}}}}`,
			`{"route": "x"}`, []string{"what", `{"route": "y"}`}, "done"},
		"evaluator": {`pattern: {type: evaluator_optimizer, config: {producer: a, evaluator: {agent: r}, accept: {min_score: 50}}}`,
			`{"score": 60}`, []string{"nice", "good"}, "done"},
		"planner": {`pattern: {type: orchestrator_workers, config: {orchestrator: {agent: r, limits: {}}, worker_template: {agent: a}}}`,
			`["t"]`, []string{"no", "no", "no"}, "Worker 0: done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, lines(map[string][]string{"a": {"done"}, "r": append(c.bad, c.good)}))
			res, err := s.start(head + agents + c.pattern)
			if err == nil || res.Status != workflow.StatusFailed {
				t.Fatalf("the run is %+v (%v)", res, err)
			}
			before := s.calls()
			s.completes(c.last)(s.resume(workflow.ResumeOptions{}))
			if s.calls() == before {
				t.Error("nobody was asked again")
			}
		})
	}
}
