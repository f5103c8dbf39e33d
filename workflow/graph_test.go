package workflow_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

const graphSpec = head + `
inputs: {values: {topic: tea}}
agents: {x: {prompt: X}, y: {prompt: Y}}
pattern:
  type: graph
  config:
    nodes:
      a: {agent: x, input: "a {{ topic }} {{ nodes.end.status }} {{ hitl_response }}"}
      ok: {type: hitl, prompt: "ok {{ nodes.a.response }}?"}
      b: {agent: y}
      end: {agent: x, input: "end {{ nodes.a.iteration }}"}
    edges:
      - {from: a, to: [ok]}
      - from: ok
        choose:
          - {when: "hitl_response == 'again'", to: a}
          - {when: "{{ nodes.b.response == none }}", to: b}
          - {when: else, to: end}
      - {from: b, to: [end]}
outputs: {artifacts: [{path: o, from: "{{ terminal_node }} {{ total_steps }} {{ iteration_counts }} {{ cumulative_tokens }} {{ name }} {{ nodes.b.agent }} {{ last_response }} {{ timestamp is defined }}"}]}
`

func TestGraph_walksLoopsAndAsks(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"x": {"one", "two", "fin"}, "y": {"why"}}))
	s.pauses("ok one?")(s.start(graphSpec))
	s.pauses("ok two?")(s.answer("again"))
	s.completes("fin")(s.answer("good"))
	s.wantInputs("a tea not_executed None", "a tea not_executed again", "You are at node b of a graph. These nodes have run before it: a, ok.", "end 2")
	if got := s.shown(t, "end 2"); got != "user:a tea not_executed None|assistant:one|user:a tea not_executed again|assistant:two|user:end 2" {
		t.Errorf("the last node was shown %s", got)
	}
	if got := s.artifact("o"); got != "end 4 {'a': 2, 'ok': 2, 'b': 1, 'end': 1} 30 Test run y fin True" {
		t.Errorf("the artifact holds %q", got)
	}
	none := func(agent string) string {
		return `{"response": null, "agent": ` + agent + `, "status": "not_executed", "iteration": 0}`
	}
	ran := func(response, agent, n string) string {
		return `{"response": "` + response + `", "agent": "` + agent + `", "status": "success", "iteration": ` + n + `}`
	}
	waits := func(prompt, n string) string {
		return `{"response": null, "type": "hitl", "prompt": "` + prompt + `", "status": "waiting_for_user", "iteration": ` + n + `}`
	}
	answered := func(prompt, answer, n string) string {
		return `{"response": "` + answer + `", "type": "hitl", "prompt": "` + prompt + `", "status": "success", "iteration": ` + n + `}`
	}
	state := func(at, a, ok, b, end, counts, steps, path, more string) string {
		return `{"current_node": "` + at + `", "node_results": {"a": ` + a + `, "ok": ` + ok + `, "b": ` + b + `, "end": ` + end + `}, "iteration_counts": {` + counts +
			`}, "total_steps": ` + steps + `, "execution_path": [` + path + `]` + more + `}`
	}
	ask := func(tokens, prompt string) string {
		return `, "cumulative_tokens": ` + tokens + `, "hitl_state": ` + hitl(`"node_id": "ok", "prompt": "`+prompt+`"`)
	}
	knows := func(tokens, prompt, answer string) string {
		return `, "cumulative_tokens": ` + tokens + `, "hitl_state": ` + hitl(`"active": false, "node_id": "ok", "prompt": "`+prompt+`", "user_response": "`+answer+`"`)
	}
	x, y, nobody := none(`"x"`), none(`"y"`), none("null")
	one, two, why, fin := ran("one", "x", "1"), ran("two", "x", "2"), ran("why", "y", "1"), ran("fin", "x", "1")
	end := state("end", two, answered("ok two?", "good", "2"), why, fin, `"a": 2, "ok": 2, "b": 1, "end": 1`, "4", `"a", "ok", "a", "ok", "b", "end"`, knows("10", "ok two?", "good"))
	s.history(
		`running `+state("a", x, nobody, y, x, "", "0", "", ""),
		`running `+state("ok", one, nobody, y, x, `"a": 1`, "1", `"a"`, ""),
		`paused `+state("ok", one, waits("ok one?", "1"), y, x, `"a": 1, "ok": 1`, "1", `"a"`, ask("5", "ok one?")),
		`running `+state("a", one, answered("ok one?", "again", "1"), y, x, `"a": 1, "ok": 1`, "1", `"a", "ok"`, knows("5", "ok one?", "again")),
		`running `+state("ok", two, answered("ok one?", "again", "1"), y, x, `"a": 2, "ok": 1`, "2", `"a", "ok", "a"`, knows("5", "ok one?", "again")),
		`paused `+state("ok", two, waits("ok two?", "2"), y, x, `"a": 2, "ok": 2`, "2", `"a", "ok", "a"`, ask("10", "ok two?")),
		`running `+state("b", two, answered("ok two?", "good", "2"), y, x, `"a": 2, "ok": 2`, "2", `"a", "ok", "a", "ok"`, knows("10", "ok two?", "good")),
		`running `+state("end", two, answered("ok two?", "good", "2"), why, x, `"a": 2, "ok": 2, "b": 1`, "3", `"a", "ok", "a", "ok", "b"`, knows("10", "ok two?", "good")),
		`running `+end,
		`completed `+end,
	)
}

func TestGraph_aFailedNodeSaysSoAndIsNoVisit(t *testing.T) {
	t.Parallel()
	broken := true
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if broken {
			return llm.Response{}, &llm.ProviderError{Provider: "scripted", Message: "no"}
		}
		return echo(r)
	})
	loop := head + `
agents: {x: {prompt: X}}
pattern: {type: graph, config: {max_iterations: 1, nodes: {a: {agent: x, input: hi}, z: {agent: x, input: bye}}, edges: [{from: a, to: [z]}]}}
`
	s.fails(workflow.KindProvider, "node/a@1", "scripted: no")(s.start(loop))
	want := `{"current_node": "a", "node_results": {"a": {"response": "ERROR: scripted: no", "agent": "x", "status": "error", "iteration": 1},
		"z": {"response": null, "agent": "x", "status": "not_executed", "iteration": 0}}, "iteration_counts": {}, "total_steps": 0, "execution_path": []}`
	if got := patternJSON(t, s.state()); !sameJSON(t, got, want) {
		t.Errorf("the state is %s", got)
	}
	broken = false
	s.completes("re: bye")(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("hi", "hi", "bye")
}

func TestGraph_limitsFailOnlyWhenAFurtherNodeIsDue(t *testing.T) {
	t.Parallel()
	circle := `
agents: {x: {prompt: X}}
pattern: {type: graph, config: {max_iterations: 2, nodes: {a: {agent: x, input: a}, b: {agent: x, input: b}, z: {agent: x, input: z}}, edges: [{from: a, to: [b]}, {from: b, choose: [{when: "nodes.b.iteration < LAPS", to: a}, {when: else, to: z}]}]}}
`
	s := newScene(t, echo)
	s.completes("re: z")(s.start(head + strings.Replace(circle, "LAPS", "2", 1)))
	s = newScene(t, echo)
	s.fails("GraphExecutionError", "", `"a"`, "max_iterations")(s.start(head + strings.Replace(circle, "LAPS", "3", 1)))
	if s.calls() != 4 {
		t.Errorf("%d calls", s.calls())
	}
	five := strings.Replace(head, "model_id: m,", "model_id: m, budgets: {max_steps: 5},", 1)
	s = newScene(t, echo)
	s.completes("re: z")(s.start(five + strings.Replace(circle, "LAPS", "2", 1)))
	s = newScene(t, echo)
	s.fails(workflow.KindBudget, "", "max_steps")(s.start(strings.Replace(five, "5", "4", 1) + strings.Replace(circle, "LAPS", "2", 1)))
	if s.calls() != 4 {
		t.Errorf("%d calls", s.calls())
	}
}

func TestGraph_withoutABudgetEndsAfterAHundredSteps(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.fails("GraphExecutionError", "", "100 nodes")(s.start(head + `
agents: {x: {prompt: X}}
pattern: {type: graph, config: {max_iterations: 1000, nodes: {a: {agent: x, input: a}, z: {agent: x}}, edges: [{from: a, choose: [{when: "nodes.a.iteration > 900", to: z}, {when: "true", to: a}]}]}}
`))
	if s.calls() != 100 {
		t.Errorf("%d calls", s.calls())
	}
}

func TestGraph_aConditionThatCannotBeEvaluatedFailsTheRun(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	fails := s.fails("GraphExecutionError", "", "/pattern/config/edges/0/choose/0/when")
	fails(s.start(head + `
agents: {x: {prompt: X}}
pattern: {type: graph, config: {nodes: {a: {agent: x, input: a}, z: {agent: x}}, edges: [{from: a, choose: [{when: "nodes.nope.response > 1", to: z}]}]}}
`))
	fails(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 1 {
		t.Errorf("%d calls", s.calls())
	}
}
