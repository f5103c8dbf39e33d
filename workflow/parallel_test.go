package workflow_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

const parallelSpec = head + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern:
  type: parallel
  config:
    branches:
      - {id: y, steps: [{agent: a, input: y0}, {agent: a, input: "y1 {{ last_response }} {{ steps[0].response }}"}]}
      - {id: x, steps: [{agent: a, input: x0}]}
    reduce: {agent: a, input: "{% for id, b in branches.items() %}{{ id }}={{ b.response }}/{{ b.tokens_estimated }};{% endfor %}{{ how }}", vars: {how: now}}
`

func TestParallel_branchesThenReduce(t *testing.T) {
	t.Parallel()
	// The second branch answers only when the first is done: so the order of
	// the commits is known.
	done := make(chan struct{})
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if input(r) == "x0" {
			<-done
		}
		return echo(r)
	})
	tell := s.host.OnEvent
	s.host.OnEvent = func(e workflow.Event) {
		tell(e)
		if e.Type == workflow.BranchComplete && e.Data.(workflow.BranchData).BranchID == "y" {
			close(done)
		}
	}
	reduced := "re: y=re: y1 re: y0 re: y0/14;x=re: x0/3;now"
	s.completes(reduced)(s.start(parallelSpec))
	if got := s.shown(t, "y1 re: y0 re: y0"); got != "user:y0|assistant:re: y0|user:y1 re: y0 re: y0" {
		t.Errorf("the second step was shown %s", got)
	}
	if got := s.shown(t, "x0"); got != "user:x0" {
		t.Errorf("the other branch was shown %s", got)
	}
	want := "user:y0|assistant:re: y0|user:y1 re: y0 re: y0|assistant:re: y1 re: y0 re: y0|user:x0|assistant:re: x0|user:" + strings.TrimPrefix(reduced, "re: ")
	if got := s.shown(t, strings.TrimPrefix(reduced, "re: ")); got != want {
		t.Errorf("reduce was shown %s", got)
	}
	y0 := `{"index": 0, "agent": "a", "response": "re: y0", "tokens_estimated": 3}`
	y1 := `{"index": 1, "agent": "a", "response": "re: y1 re: y0 re: y0", "tokens_estimated": 11}`
	x0 := `{"index": 0, "agent": "a", "response": "re: x0", "tokens_estimated": 3}`
	y := `"y": {"response": "re: y1 re: y0 re: y0", "status": "success", "tokens_estimated": 14, "step_history": [` + y0 + `,` + y1 + `]}`
	x := `"x": {"response": "re: x0", "status": "success", "tokens_estimated": 3, "step_history": [` + x0 + `]}`
	s.history(
		`running {}`,
		`running {"completed_branches": [], "branch_results": {}, "reduce_executed": false, "branch_states": {"y": {"step_history": [`+y0+`], "current_step": 1, "cumulative_tokens": 3}}}`,
		`running {"completed_branches": ["y"], "branch_results": {`+y+`}, "reduce_executed": false, "branch_states": {}}`,
		`running {"completed_branches": ["y", "x"], "branch_results": {`+y+`,`+x+`}, "reduce_executed": false, "branch_states": {}}`,
		`running {"completed_branches": ["y", "x"], "branch_results": {`+y+`,`+x+`}, "reduce_executed": true, "branch_states": {}, "final_response": "`+reduced+`"}`,
		`completed {"completed_branches": ["y", "x"], "branch_results": {`+y+`,`+x+`}, "reduce_executed": true, "branch_states": {}, "final_response": "`+reduced+`"}`,
	)
}

func TestParallel_withoutReduceJoinsInTheOrderOfIDs(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("Branch B:\nre: 2\n\n---\n\nBranch a:\nre: 1\n\n---\n\nBranch ä:\nre: 3")(s.start(head + `
agents: {w: {prompt: W}}
pattern:
  type: parallel
  config: {branches: [{id: a, steps: [{agent: w, input: '1'}]}, {id: B, steps: [{agent: w, input: "2"}]}, {id: ä, steps: [{agent: w, input: "3"}]}]}
`))
}

const askingBranches = head + `
agents: {w: {prompt: W}}
pattern:
  type: parallel
  config:
    branches:
      - {id: a, steps: [{agent: w, input: a0}, {type: hitl, prompt: "a1 {{ last_response }}"}, {type: hitl, prompt: "a2 {{ hitl_response }}"}, {agent: w, input: "a3 {{ hitl_response }}"}]}
      - {id: b, steps: [{type: hitl, prompt: b0}, {agent: w, input: "b1 {{ hitl_response }}"}]}
      - {id: c, steps: [{agent: w, input: c0}, {type: hitl, prompt: c1}]}
    reduce: {type: hitl, prompt: "sum {{ branches.a.response }} {{ branches.c.response }}"}
`

func TestParallel_severalBranchesWait(t *testing.T) {
	t.Parallel()
	s := newScene(t, gated(2, echo))
	res, err := s.start(askingBranches)
	s.pauses("a1 re: a0")(res, err)
	if len(res.Pending) != 3 {
		t.Errorf("%d questions wait", len(res.Pending))
	}
	if _, err := s.resume(workflow.ResumeOptions{Answer: ptr("x"), Target: "nobody"}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an answer to nobody: %v", err)
	}
	state := s.state()
	a := hitl(`"step_index": 1, "branch_id": "a", "step_type": "branch", "prompt": "a1 re: a0"`)
	b := hitl(`"step_index": 0, "branch_id": "b", "step_type": "branch", "prompt": "b0"`)
	c := hitl(`"step_index": 1, "branch_id": "c", "step_type": "branch", "prompt": "c1"`)
	a0 := `{"index": 0, "agent": "w", "response": "re: a0", "tokens_estimated": 3}`
	c0 := `{"index": 0, "agent": "w", "response": "re: c0", "tokens_estimated": 3}`
	want := `{"completed_branches": [], "branch_results": {}, "reduce_executed": false, "branch_states": {
		"a": {"step_history": [` + a0 + `], "current_step": 1, "cumulative_tokens": 3},
		"b": {"step_history": [], "current_step": 0, "cumulative_tokens": 0},
		"c": {"step_history": [` + c0 + `], "current_step": 1, "cumulative_tokens": 3}},
		"current_step": 1, "hitl_state": ` + a + `, "hitl_pending": [` + a + "," + b + "," + c + `]}`
	if got := patternJSON(t, state); !sameJSON(t, got, want) {
		t.Errorf("three wait:\n%s\nwant\n%s", got, want)
	}

	s.reported()
	// c is answered out of turn and is done; a and b wait.
	s.pauses("a1 re: a0")(s.resume(workflow.ResumeOptions{Answer: ptr("C"), Target: "c"}))
	if got := s.reported(); got != "workflow_start, hitl_answer branch/c/step/1, branch_complete c" {
		t.Errorf("told: %s", got)
	}
	// a runs to its next question, which is put although b waits.
	res, err = s.answer("A1")
	s.pauses("a2 A1")(res, err)
	if len(res.Pending) != 2 || res.Pending[1].Prompt != "b0" {
		t.Errorf("waiting: %+v", res.Pending)
	}
	s.pauses("b0")(s.answer("A2"))
	s.pauses("sum re: a3 A2 C")(s.answer("B"))
	got := s.inputs()
	slices.Sort(got)
	if !slices.Equal(got, []string{"a0", "a3 A2", "b1 B", "c0"}) {
		t.Errorf("asked %q", got)
	}
	s.completes("end")(s.answer("end"))

	ah := a0 + `,{"index": 1, "type": "hitl", "prompt": "a1 re: a0", "response": "A1", "tokens_estimated": 0},{"index": 2, "type": "hitl", "prompt": "a2 A1", "response": "A2", "tokens_estimated": 0}`
	a3 := `{"index": 3, "agent": "w", "response": "re: a3 A2", "tokens_estimated": 5}`
	bh := `{"index": 0, "type": "hitl", "prompt": "b0", "response": "B", "tokens_estimated": 0}`
	b1 := `{"index": 1, "agent": "w", "response": "re: b1 B", "tokens_estimated": 5}`
	ch := c0 + `,{"index": 1, "type": "hitl", "prompt": "c1", "response": "C", "tokens_estimated": 0}`
	want = `{"completed_branches": ["a", "b", "c"], "branch_results": {
		"a": {"response": "re: a3 A2", "status": "success", "tokens_estimated": 8, "step_history": [` + ah + "," + a3 + `]},
		"b": {"response": "re: b1 B", "status": "success", "tokens_estimated": 5, "step_history": [` + bh + "," + b1 + `]},
		"c": {"response": "C", "status": "success", "tokens_estimated": 3, "step_history": [` + ch + `]}},
		"reduce_executed": true, "final_response": "end", "hitl_state": null, "branch_states": {
		"a": {"step_history": [` + ah + `], "current_step": 3, "cumulative_tokens": 3},
		"b": {"step_history": [` + bh + `], "current_step": 1, "cumulative_tokens": 0},
		"c": {"step_history": [` + ch + `], "current_step": 2, "cumulative_tokens": 3}}}`
	if got := patternJSON(t, s.state()); !sameJSON(t, got, want) {
		t.Errorf("at the end:\n%s\nwant\n%s", got, want)
	}
}

func TestParallel_reduceAsksForItself(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("q")(s.start(head + `
agents: {w: {prompt: W}}
pattern:
  type: parallel
  config:
    branches: [{id: a, steps: [{type: hitl, prompt: q}]}, {id: b, steps: [{agent: w, input: b}]}]
    reduce: {type: hitl, prompt: r}
`))
	s.pauses("r")(s.answer(""))
	b0 := `{"index": 0, "agent": "w", "response": "re: b", "tokens_estimated": 3}`
	a0 := `{"index": 0, "type": "hitl", "prompt": "q", "response": "", "tokens_estimated": 0}`
	bDone := `"b": {"response": "re: b", "status": "success", "tokens_estimated": 3, "step_history": [` + b0 + `]}`
	aDone := `"a": {"response": "", "status": "success", "tokens_estimated": 0, "step_history": [` + a0 + `]}`
	aState := `"a": {"step_history": [` + a0 + `], "current_step": 1, "cumulative_tokens": 0}`
	one := `"completed_branches": ["b"], "branch_results": {` + bDone + `}, "reduce_executed": false`
	both := `"completed_branches": ["a", "b"], "branch_results": {` + aDone + "," + bDone + `}, "branch_states": {` + aState + `}`
	s.completes("")(s.answer(""))
	s.history(
		`running {}`,
		`running {`+one+`, "branch_states": {}}`,
		`paused {`+one+`, "branch_states": {"a": {"step_history": [], "current_step": 0, "cumulative_tokens": 0}}, "current_step": 0, "hitl_state": `+
			hitl(`"step_index": 0, "branch_id": "a", "step_type": "branch", "prompt": "q"`)+`}`,
		`running {`+both+`, "reduce_executed": false, "hitl_state": null}`,
		`paused {`+both+`, "reduce_executed": false, "hitl_state": `+hitl(`"step_type": "reduce", "prompt": "r"`)+`}`,
		`running {`+both+`, "reduce_executed": true, "final_response": "", "hitl_state": null}`,
		`completed {`+both+`, "reduce_executed": true, "final_response": "", "hitl_state": null}`,
	)
}

func TestParallel_aBranchThatFailsStopsTheOthersBeforeTheirNextStep(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	failed := make(chan struct{})
	s := newScene(t, gated(2, func(r llm.Request) (llm.Response, error) {
		switch {
		case input(r) == "a0" && broken.Load():
			defer close(failed)
			return llm.Response{}, errors.New("out of order")
		case input(r) == "b0" && broken.Load():
			<-failed
		}
		return echo(r)
	}))
	s.fails(workflow.KindProvider, "branch/a/step/0", "out of order")(s.start(head + `
agents: {w: {prompt: W}}
pattern:
  type: parallel
  config: {branches: [{id: a, steps: [{agent: w, input: a0}]}, {id: b, steps: [{agent: w, input: b0}]}]}
`))
	broken.Store(false)
	s.completes("Branch a:\nre: a0\n\n---\n\nBranch b:\nre: b0")(s.resume(workflow.ResumeOptions{}))
	got := s.inputs()
	slices.Sort(got)
	if !slices.Equal(got, []string{"a0", "a0", "b0"}) {
		t.Errorf("asked %q", got)
	}
}

func TestParallel_neverMoreThanMaxParallelAtATime(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		defer now.Add(-1)
		return echo(r)
	})
	var b strings.Builder
	b.WriteString(strings.Replace(head, "model_id: m,", "model_id: m, max_parallel: 3,", 1) + "agents: {w: {prompt: W}}\npattern:\n  type: parallel\n  config:\n    branches:\n")
	for i := range 60 {
		fmt.Fprintf(&b, "      - {id: b%02d, steps: [{agent: w, input: '%d'}, {agent: w, input: 'again %d'}]}\n", i, i, i)
	}
	res, err := s.start(b.String())
	if err != nil || res.Status != workflow.StatusCompleted || s.calls() != 120 || most.Load() > 3 {
		t.Errorf("%d calls, %d at a time, %+v (%v)", s.calls(), most.Load(), res, err)
	}
}

func ptr[T any](v T) *T { return &v }
