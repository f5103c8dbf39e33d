package workflow_test

import (
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

func TestWorkflow_layersSeeEarlierLayersOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: d re: b re: a re: c")(s.start(head + `
agents: {w: {prompt: W}, v: {prompt: V}}
pattern:
  type: workflow
  config:
    tasks:
      - {id: d, agent: w, deps: [b, c], input: "d {{ tasks.b.response }} {{ tasks['c'].response }}", description: never sent}
      - {id: b, agent: w, deps: [a], input: "b {{ tasks.a.response }}"}
      - {id: a, agent: w, input: a}
      - {id: c, agent: v, input: c}
outputs: {artifacts: [{path: o, from: "{% for id, t in tasks.items() %}{{ id }}={{ t.response }}/{{ t.agent }};{% endfor %}"}]}
`))
	got := s.inputs()
	sort.Strings(got[:2])
	if strings.Join(got, "|") != "a|c|b re: a|d re: b re: a re: c" {
		t.Errorf("asked %q", got)
	}
	if got := s.shown(t, "d re: b re: a re: c"); got != "user:a|assistant:re: a|user:b re: a|assistant:re: b re: a|user:d re: b re: a re: c" {
		t.Errorf("task d was shown %s", got)
	}
	if got := s.artifact("o"); got != "a=re: a/w;c=re: c/v;b=re: b re: a/w;d=re: d re: b re: a re: c/w;" {
		t.Errorf("the artifact holds %q", got)
	}
	a := `"a": {"response": "re: a", "status": "success", "tokens_estimated": 3, "agent": "w"}`
	c := `"c": {"response": "re: c", "status": "success", "tokens_estimated": 3, "agent": "v"}`
	b := `"b": {"response": "re: b re: a", "status": "success", "tokens_estimated": 7, "agent": "w"}`
	d := `"d": {"response": "re: d re: b re: a re: c", "status": "success", "tokens_estimated": 15, "agent": "w"}`
	end := `{"task_results": {` + a + "," + b + "," + c + "," + d + `}, "completed_tasks": ["a", "c", "b", "d"], "current_layer": 3}`
	if got := patternJSON(t, s.state()); !sameJSON(t, got, end) {
		t.Errorf("the state is %s", got)
	}
}

// gated is an answer function under which calls wait until n of them are there.
func gated(n int, answer func(llm.Request) (llm.Response, error)) func(llm.Request) (llm.Response, error) {
	var arrived atomic.Int64
	open := make(chan struct{})
	return func(r llm.Request) (llm.Response, error) {
		if arrived.Add(1) == int64(n) {
			close(open)
		}
		<-open
		return answer(r)
	}
}

func TestWorkflow_tasksOfALayerWorkAtTheSameTimeAndShareNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, gated(3, echo))
	s.completes("re: c")(s.start(head + `
agents: {w: {prompt: W}}
pattern: {type: workflow, config: {tasks: [{id: a, agent: w, input: a}, {id: b, agent: w, input: b}, {id: c, agent: w, input: c}]}}
`))
	for _, input := range []string{"a", "b", "c"} {
		if got := s.shown(t, input); got != "user:"+input {
			t.Errorf("task %s was shown %s", input, got)
		}
	}
	if use := s.state().Usage; use.ByAgent["w"] != 45 {
		t.Errorf("used: %+v", use)
	}
}

const askingLayer = head + `
agents: {w: {prompt: W}}
pattern:
  type: workflow
  config:
    tasks:
      - {id: a, agent: w, input: "a "}
      - {id: q1, type: hitl, prompt: "one {{ tasks.a.response }}", deps: []}
      - {id: b, agent: w, input: "b {{ tasks.a.response }} {{ hitl_response }} {{ tasks.q1.response }}"}
      - {id: q2, type: hitl, prompt: "two {{ tasks.b.response }}"}
      - {id: c, agent: w, deps: [q1], input: "c {{ hitl_response }} {{ tasks.b.response }}"}
      - {id: end, type: hitl, prompt: last, deps: [c]}
`

func TestWorkflow_questionsOfALayerAreAskedInTurn(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"w": {"A", "B", "C"}}))
	s.pauses("one A")(s.start(askingLayer))
	s.pauses("two B")(s.answer("x"))
	s.pauses("last")(s.answer("y"))
	s.completes("z")(s.answer("z"))
	s.wantInputs("a ", "b A x x", "c y B")
	if got := s.shown(t, "b A x x"); got != "user:b A x x" {
		t.Errorf("a task was shown its own layer: %s", got)
	}
	if got := s.shown(t, "c y B"); got != "user:a |assistant:A|user:b A x x|assistant:B|user:c y B" {
		t.Errorf("task c was shown %s", got)
	}
	a := `"a": {"response": "A", "status": "success", "tokens_estimated": 2, "agent": "w"}`
	b := `"b": {"response": "B", "status": "success", "tokens_estimated": 5, "agent": "w"}`
	c := `"c": {"response": "C", "status": "success", "tokens_estimated": 4, "agent": "w"}`
	q := func(id, prompt, answer string) string {
		return `"` + id + `": {"type": "hitl", "prompt": "` + prompt + `", "response": "` + answer + `", "status": "success", "tokens_estimated": 0, "agent": "hitl"}`
	}
	asks := func(id, layer, prompt string) string {
		return `"hitl_state": ` + hitl(`"task_id": "`+id+`", "layer_index": `+layer+`, "prompt": "`+prompt+`"`)
	}
	knows := func(id, layer, prompt, answer string) string {
		return `"hitl_state": ` + hitl(`"active": false, "task_id": "`+id+`", "layer_index": `+layer+`, "prompt": "`+prompt+`", "user_response": "`+answer+`"`)
	}
	state := func(status, done, layer, hitl string, results ...string) string {
		return status + ` {"task_results": {` + strings.Join(results, ",") + `}, "completed_tasks": [` + done + `], "current_layer": ` + layer + hitl + `}`
	}
	q1, q2, end := q("q1", "one A", "x"), q("q2", "two B", "y"), q("end", "last", "z")
	s.history(
		`running {}`,
		state("running", `"a"`, "0", "", a),
		state("paused", `"a"`, "0", ","+asks("q1", "0", "one A"), a),
		state("running", `"a", "q1"`, "0", ","+knows("q1", "0", "one A", "x"), a, q1),
		state("running", `"a", "q1", "b"`, "0", ","+knows("q1", "0", "one A", "x"), a, q1, b),
		state("paused", `"a", "q1", "b"`, "0", ","+asks("q2", "0", "two B"), a, q1, b),
		state("running", `"a", "q1", "b", "q2"`, "1", ","+knows("q2", "0", "two B", "y"), a, q1, b, q2),
		state("running", `"a", "q1", "b", "q2", "c"`, "2", ","+knows("q2", "0", "two B", "y"), a, q1, b, q2, c),
		state("paused", `"a", "q1", "b", "q2", "c"`, "2", ","+asks("end", "2", "last"), a, q1, b, q2, c),
		state("running", `"a", "q1", "b", "q2", "c", "end"`, "3", ","+knows("end", "2", "last", "z"), a, q1, b, q2, c, end),
		state("completed", `"a", "q1", "b", "q2", "c", "end"`, "3", ","+knows("end", "2", "last", "z"), a, q1, b, q2, c, end),
	)
}

func TestWorkflow_ofOneTaskHasNoStateOnceItIsDone(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: x")(s.start(head + `
agents: {w: {prompt: W}}
pattern: {type: workflow, config: {tasks: [{id: only, agent: w, input: x}]}}
`))
	s.history(`running {}`,
		`running {"task_results": {"only": {"response": "re: x", "status": "success", "tokens_estimated": 3, "agent": "w"}}, "completed_tasks": ["only"], "current_layer": 1}`,
		`completed {}`)
	if got := s.reported(); got != "workflow_start, task_start task/only, task_complete task/only, workflow_complete" {
		t.Errorf("told: %s", got)
	}
}

func TestWorkflow_ofOneQuestionKeepsItsState(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("p")(s.start(head + `
agents: {w: {prompt: W}}
pattern: {type: workflow, config: {tasks: [{id: only, type: hitl, prompt: p}]}}
`))
	s.completes("a")(s.answer("a"))
	if st := s.state(); !st.Pattern.Has("task_results") || s.calls() != 0 {
		t.Errorf("the state is %s", patternJSON(t, st))
	}
}

func TestWorkflow_afterAFailureTheOthersFinishAndNothingIsAskedTwice(t *testing.T) {
	t.Parallel()
	broken := true
	s := newScene(t, gated(2, func(r llm.Request) (llm.Response, error) {
		if input(r) == "b" && broken {
			return llm.Response{}, &llm.ProviderError{Provider: "scripted", Message: "no"}
		}
		return echo(r)
	}))
	s.fails(workflow.KindProvider, "task/b", "no")(s.start(head + `
agents: {w: {prompt: W}}
pattern:
  type: workflow
  config: {tasks: [{id: a, agent: w, input: a}, {id: b, agent: w, input: b}, {id: c, agent: w, deps: [a], input: "c {{ tasks.a.response }}"}]}
`))
	st := s.state()
	if done, _ := st.Pattern.Get("completed_tasks"); len(done.([]string)) != 1 || st.Metadata.Status != workflow.StatusFailed ||
		*st.Metadata.Error != "ProviderError: task/b: scripted: no" {
		t.Errorf("the state is %s, %+v", patternJSON(t, st), st.Metadata)
	}
	broken = false
	s.completes("re: c re: a")(s.resume(workflow.ResumeOptions{}))
	if st := s.state(); st.Metadata.Error != nil {
		t.Errorf("the error stays: %s", *st.Metadata.Error)
	}
	got := s.inputs()
	sort.Strings(got)
	if strings.Join(got, "|") != "a|b|b|c re: a" {
		t.Errorf("asked %q", got)
	}
}
