package workflow_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow"
)

const chainSpec = `
version: 1
name: Tea letter
runtime: {provider: scripted, model_id: m, failure_policy: {wait_min: 0, wait_max: 0}}
inputs: {required: {topic: string}}
agents:
  writer: {prompt: Write.}
  critic: {prompt: Judge.}
pattern:
  type: chain
  config:
    steps:
      - {agent: writer, input: "About {{ topic }}"}
      - {type: hitl, prompt: "Is {{ steps[0].response }} good?"}
      - {agent: critic, input: "{{ hitl_response }} / {{ steps[0].response }}"}
      - {agent: writer, input: "{{ steps[2].response }} {{ mood }}", vars: {mood: calm}}
outputs:
  artifacts:
    - {path: "{{ topic }}/letter.md", from: "{{ last_response }}"}
`

func TestChain_pausesForAPersonAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("Is re: About tea good?")(s.start(chainSpec, "topic", "tea"))
	if got := s.reported(); got != "workflow_start, step_start step/0, step_complete step/0, hitl_pause step/1" {
		t.Errorf("told at first: %s", got)
	}
	want := "re: re: yes / re: About tea calm"
	s.completes(want)(s.answer("yes"))
	if got := s.reported(); got != "workflow_start, hitl_answer step/1, step_start step/2, step_complete step/2, step_start step/3, step_complete step/3, workflow_complete" {
		t.Errorf("told then: %s", got)
	}
	if got := s.artifact("tea/letter.md"); got != want {
		t.Errorf("the artifact holds %q", got)
	}
	s.wantInputs("About tea", "yes / re: About tea", "re: yes / re: About tea calm")
	if got := s.shown(t, "re: yes / re: About tea calm"); got != "user:About tea|assistant:re: About tea|user:re: yes / re: About tea calm" {
		t.Errorf("the writer was shown %s", got)
	}
	if got := s.shown(t, "yes / re: About tea"); got != "user:yes / re: About tea" {
		t.Errorf("the critic was shown %s", got)
	}
	if !strings.HasPrefix(s.asked[2].System, "Write.") {
		t.Errorf("the writer was told %q", s.asked[2].System)
	}
	step0 := `{"index": 0, "agent": "writer", "response": "re: About tea", "tokens_estimated": 5}`
	step1 := `{"index": 1, "type": "hitl", "prompt": "Is re: About tea good?", "response": "yes", "tokens_estimated": 0}`
	step2 := `{"index": 2, "agent": "critic", "response": "re: yes / re: About tea", "tokens_estimated": 11}`
	step3 := `{"index": 3, "agent": "writer", "response": "re: re: yes / re: About tea calm", "tokens_estimated": 15}`
	asks := hitl(`"step_index": 1, "prompt": "Is re: About tea good?"`)
	knows := hitl(`"active": false, "step_index": 1, "prompt": "Is re: About tea good?", "user_response": "yes"`)
	end := `completed {"current_step": 4, "step_history": [` + step0 + "," + step1 + "," + step2 + "," + step3 + `], "hitl_state": ` + knows + `}`
	s.history(
		`running {}`,
		`running {"current_step": 1, "step_history": [`+step0+`]}`,
		`paused {"current_step": 1, "step_history": [`+step0+`], "hitl_state": `+asks+`}`,
		`running {"current_step": 2, "step_history": [`+step0+","+step1+`], "hitl_state": `+knows+`}`,
		`running {"current_step": 3, "step_history": [`+step0+","+step1+","+step2+`], "hitl_state": `+knows+`}`,
		strings.Replace(end, "completed", "running", 1),
		end,
	)
	st := s.state()
	if st.Usage.Input != 30 || st.Usage.Output != 15 || st.Usage.ByAgent["writer"] != 30 || st.Usage.ByAgent["critic"] != 15 || st.Agents["writer"].Estimated {
		t.Errorf("used: %+v, %+v", st.Usage, st.Agents)
	}
}

func TestChain_ofOneStepHasNoStateOnceItIsDone(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: go on")(s.start(head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: "go {{ how }}", vars: {how: "on"}}]}}
`))
	s.history(
		`running {}`,
		`running {"current_step": 1, "step_history": [{"index": 0, "agent": "a", "response": "re: go on", "tokens_estimated": 5}]}`,
		`completed {}`,
	)
	if st := s.state(); st.Final != "re: go on" || st.Agent != "a" {
		t.Errorf("the log lost the response: %+v", st)
	}
}

func TestChain_thatEndsWithAPersonCompletesWithArtifacts(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("last word?\n")(s.start(head + `
agents: {a: {prompt: A}}
pattern:
  type: chain
  config:
    steps:
      - {agent: a, input: x}
      - {type: hitl, prompt: "last word?\n", context_display: "{{ steps[0].response }}\n"}
outputs: {artifacts: [{path: out.txt, from: "{{ last_response }}|{{ steps[1].prompt }}"}]}
`))
	s.completes("mine")(s.answer("mine"))
	if got := s.artifact("out.txt"); got != "mine|last word?\n" {
		t.Errorf("the artifact holds %q", got)
	}
	if s.calls() != 1 {
		t.Errorf("%d calls", s.calls())
	}
	if st := s.state(); st.Agent != "hitl" || len(st.Artifacts) != 1 {
		t.Errorf("the state is %+v", st)
	}
}

func TestChain_absentInputIsTheEmptyText(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: ")(s.start(head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a}]}}
`))
	s.wantInputs("")
}

func TestStart_whatCanBeSeenToBeWrongMakesNoSession(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	one := head + "agents: {a: {prompt: A}}\npattern: {type: chain, config: {steps: [{agent: %s}]}}\n"
	if _, err := s.start(strings.Replace(one, "%s", "b", 1)); err == nil {
		t.Error("an agent that is not there was taken")
	}
	ask := head + "agents: {a: {prompt: A}}\npattern: {type: chain, config: {steps: [{type: hitl, prompt: p}]}}\n"
	if _, err := s.startWith(workflow.RunOptions{Volatile: true}, ask); err == nil {
		t.Error("a question was taken that nobody can answer later")
	}
	if s.id != "" || s.calls() != 0 {
		t.Errorf("session %q, %d calls", s.id, s.calls())
	}
}
