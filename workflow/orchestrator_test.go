package workflow_test

import (
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

const orchestratorSpec = head + `
inputs: {values: {zeta: 1, topic: tée}}
agents: {boss: {prompt: B}, hand: {prompt: H}}
pattern:
  type: orchestrator_workers
  config:
    orchestrator: {agent: boss, limits: {max_workers: 1}}
    worker_template: {agent: hand}
MORE
outputs: {artifacts: [{path: o, from: "{{ num_workers }} {{ round_count }} {{ workers[0].task if workers else '-' }} {{ last_response }}"}]}
`

func orchestrating(more string) string { return strings.Replace(orchestratorSpec, "MORE", more, 1) }

const asksForPlan = "Split this task among workers:\n\n{\n  \"zeta\": 1,\n  \"topic\": \"t\\u00e9e\"\n}\n\n" +
	`Answer with JSON only: an array of objects, each with a "task" field that holds all a worker needs to know. An empty array means that there is nothing to do. At most 1 workers work at the same time.`

func TestOrchestrator_planWorkersReduceWriteup(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{
		"boss": {"a plan?", "Sure:\n```json\n[{\"task\": \"dig\", \"n\": 1}, {\"way\": \"é\"}, \"fill\"]\n```", "sum", "text"}, "hand": {"dug", "paved", "filled"},
	}))
	s.completes("text")(s.start(orchestrating(`
    reduce: {agent: boss, input: "{% for w in workers %}{{ w.task }}={{ w.response }}/{{ w.tokens }} {% endfor %}{{ num_workers }} {{ x }}", vars: {x: 7}}
    writeup: {agent: boss, input: "{{ reduce_response }} {{ topic }}"}
`)))
	again := "Your last answer could not be read as JSON. It began with:\n\na plan?\n\n" + asksForPlan
	s.wantInputs(asksForPlan, again, "dig", "{'way': 'é'}", "fill", "dig=dug/2 {'way': 'é'}=paved/3 fill=filled/2 3 7", "sum tée")
	for _, task := range []string{"dig", "{'way': 'é'}", "fill"} {
		if got := s.shown(t, task); got != "user:"+task {
			t.Errorf("a worker was shown %s", got)
		}
	}
	if got := len(s.asked[6].Messages); got != 7 {
		t.Errorf("the writeup was shown %d messages", got)
	}
	if got := s.artifact("o"); got != "3 1 dig text" {
		t.Errorf("the artifact holds %q", got)
	}
	plan := `[{"task": "dig", "n": 1}, {"way": "é"}, "fill"]`
	response := `"[\n  {\n    \"task\": \"dig\",\n    \"n\": 1\n  },\n  {\n    \"way\": \"\\u00e9\"\n  },\n  \"fill\"\n]"`
	planned := `"orchestrator_response": ` + response + `, "orchestrator_subtasks": ` + plan + `, "workers_executed": false`
	w := []string{
		`{"response": "dug", "status": "success", "tokens": 2, "task": "dig"}`, `{"response": "paved", "status": "success", "tokens": 3, "task": "{'way': 'é'}"}`,
		`{"response": "filled", "status": "success", "tokens": 2, "task": "fill"}`,
	}
	worked := `"workers_executed": true, "worker_results": [` + strings.Join(w, ",") + `]`
	end := ` {` + worked + `, "reduce_executed": true, "reduce_response": "sum", "writeup_executed": true, "writeup_response": "text"}`
	s.history(
		`running {}`,
		`running {}`,
		`running {`+planned+`, "worker_states": {}}`,
		`running {`+planned+`, "worker_states": {"0": `+w[0]+`}}`,
		`running {`+planned+`, "worker_states": {"0": `+w[0]+`, "1": `+w[1]+`}}`,
		`running {`+worked+`, "reduce_executed": false, "writeup_executed": false}`,
		`running {`+worked+`, "reduce_executed": true, "reduce_response": "sum", "writeup_executed": false}`,
		`running`+end,
		`completed`+end,
	)
	if got := s.reported(); !strings.Contains(got, "worker_start worker/0, worker_complete worker/0, worker_start worker/1") {
		t.Errorf("told: %s", got)
	}
}

func TestOrchestrator_withoutEndOrPlan(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]string{
		`[{"task": "a"}, {"task": 3}]`: "Worker 0: re: a\n\nWorker 1: re: 3", "[]": "", `{"task": "only"}`: "Worker 0: re: only",
	} {
		s := newScene(t, func(r llm.Request) (llm.Response, error) {
			if r.Agent == "boss" {
				return said(plan), nil
			}
			return echo(r)
		})
		s.completes(want)(s.start(orchestrating("")))
	}
}

func TestOrchestrator_emptyReduceFallsBackToTheWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"boss": {`[{"task": "a"}]`, ""}, "hand": {"done"}}))
	s.completes("Worker 0: done")(s.start(orchestrating("    reduce: {agent: boss, input: x}")))
}

func TestOrchestrator_planThatCannotBeReadFailsAfterThreeTries(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"boss": {`[1]`, `null`, `"x"`}}))
	fails := s.fails("OrchestratorExecutionError", "", "could not be read after 3 tries")
	fails(s.start(orchestrating("")))
	fails(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 6 { // it is asked as often again
		t.Errorf("%d calls", s.calls())
	}
}

func TestOrchestrator_persons(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"boss": {`[{"task": "a"}, {"task": "b"}]`}, "hand": {"x", "y"}}))
	s.pauses("plan 2 a {\n")(s.start(orchestrating(`
    decomposition_review: {type: hitl, prompt: "plan {{ task_count }} {{ subtasks[0].task }} {{ orchestrator_response[4:6] }}", validation: {pattern: ok}}
    reduce_review: {type: hitl, prompt: "review {{ worker_count }} {{ workers[1].response }} {{ hitl_response }}"}
    reduce: {type: hitl, prompt: "reduce {{ hitl_response }} {{ num_workers }}"}
    writeup: {type: hitl, prompt: "writeup {{ reduce_response }} {{ hitl_response }}"}
`)))
	if _, err := s.answer("no"); err == nil {
		t.Error("an answer was taken that does not match")
	}
	s.pauses("review 2 y ok")(s.answer("ok"))
	s.pauses("reduce fine 2")(s.answer("fine"))
	s.pauses("writeup R R")(s.answer("R"))
	s.completes("W")(s.answer("W"))
	s.wantInputs(asksForPlan, "a", "b")
	response := `"[\n  {\n    \"task\": \"a\"\n  },\n  {\n    \"task\": \"b\"\n  }\n]"`
	planned := `"orchestrator_response": ` + response + `, "orchestrator_subtasks": [{"task": "a"}, {"task": "b"}]`
	open := planned + `, "workers_executed": false`
	w0, w1 := `{"response": "x", "status": "success", "tokens": 2, "task": "a"}`, `{"response": "y", "status": "success", "tokens": 2, "task": "b"}`
	worked := planned + `, "workers_executed": true, "worker_results": [` + w0 + "," + w1 + `]`
	ask := func(phase, prompt string) string {
		return `, "hitl_state": ` + hitl(fmt.Sprintf(`"phase": %q, "worker_count": 2, "prompt": %q`, phase, prompt))
	}
	knows := func(phase, prompt, answer string) string {
		return `, "hitl_state": ` + hitl(fmt.Sprintf(`"active": false, "phase": %q, "worker_count": 2, "prompt": %q, "user_response": %q`, phase, prompt, answer))
	}
	decided := knows("decomposition", "plan 2 a {\n", "ok")
	none := `, "reduce_executed": false, "writeup_executed": false`
	reduced := `, "reduce_executed": true, "reduce_response": "R", "writeup_executed": false`
	end := `, "reduce_executed": true, "reduce_response": "R", "writeup_executed": true, "writeup_response": "W"` + knows("writeup", "writeup R R", "W")
	s.history(
		`running {}`,
		`running {`+open+`, "worker_states": {}}`,
		`paused {`+open+`, "worker_states": {}`+ask("decomposition", "plan 2 a {\n")+`}`,
		`running {`+open+`, "worker_states": {}`+decided+`}`,
		`running {`+open+`, "worker_states": {"0": `+w0+`}`+decided+`}`,
		`running {`+worked+none+decided+`}`,
		`paused {`+worked+none+ask("reduce", "review 2 y ok")+`}`,
		`running {`+worked+none+knows("reduce", "review 2 y ok", "fine")+`}`,
		`paused {`+worked+none+ask("reduce", "reduce fine 2")+`}`,
		`running {`+worked+reduced+knows("reduce", "reduce fine 2", "R")+`}`,
		`paused {`+worked+reduced+ask("writeup", "writeup R R")+`}`,
		`running {`+worked+end+`}`,
		`completed {`+worked+end+`}`,
	)
}

func TestOrchestrator_workersOfAFailedRunAreNotAskedTwice(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		switch {
		case r.Agent == "boss":
			return said(`[{"task": "a"}, {"task": "b"}, {"task": "c"}]`), nil
		case input(r) == "b" && broken.Load():
			return llm.Response{}, &llm.ProviderError{Provider: "scripted", Message: "no"}
		}
		return echo(r)
	})
	s.fails(workflow.KindProvider, "worker/1")(s.start(orchestrating("")))
	broken.Store(false)
	s.completes("Worker 0: re: a\n\nWorker 1: re: b\n\nWorker 2: re: c")(s.resume(workflow.ResumeOptions{}))
	got := s.inputs()[1:]
	sort.Strings(got)
	if strings.Join(got, "|") != "a|b|b|c" {
		t.Errorf("asked %q", got)
	}
}
