package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

const evaluatorSpec = head + `
inputs: {values: {topic: tea}}
agents: {maker: {prompt: "Write about {{ topic }}."}, judge: {prompt: J}}
pattern:
  type: evaluator_optimizer
  config:
    producer: maker
    evaluator: {agent: judge, input: "judge {{ draft }} on {{ topic }}"}
    accept: {min_score: 80, max_iters: ITERS}
    revise_prompt: "{{ iteration }}: {{ draft }} has {{ evaluation.score }} {{ evaluation.issues }} {{ evaluation.fixes }} {{ topic }}{% if hitl_response is defined %} {{ hitl_response }}{% endif %}"
GATE
outputs: {artifacts: [{path: o, from: "{{ last_response }} {{ iterations }} {{ final_score }} {{ min_score }} {{ max_iters }} {{ history[0].score }} {{ cumulative_tokens }} {{ last_evaluation.issues }} {{ early_termination if early_termination is defined else '-' }} {{ termination_reason if termination_reason is defined else '-' }}"}]}
`

// evaluating is the spec with a number of iterations and maybe a gate.
func evaluating(iters, gate string) string {
	return strings.NewReplacer("ITERS", iters, "GATE", gate).Replace(evaluatorSpec)
}

// judged is an entry of the history.
func judged(n, score int, draft, issues, fixes, feedback string) string {
	return fmt.Sprintf(`{"iteration": %d, "score": %d, "issues": %s, "fixes": %s, "draft_preview": %q, "draft": %q,
		"evaluation": {"score": %d, "issues": %s, "fixes": %s, "feedback": %q}}`, n, score, issues, fixes, draft, draft, score, issues, fixes, feedback)
}

func TestEvaluator_revisesUntilItIsGoodEnough(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{
		"maker": {"one", "two", "three"},
		"judge": {`{"score": 60, "issues": ["i", "k"], "fixes": ["f"]}`, "so so", `{"score": "70"}`, `{"score": 80.0, "issues": null}`},
	}))
	s.completes("three")(s.start(evaluating("3", "")))
	again := "Your last answer could not be read as JSON. Judge this draft:\n\ntwo\n\nAnswer with JSON only, in the form {\"score\": <0 to 100>, \"issues\": [\"...\"], \"fixes\": [\"...\"]}."
	s.wantInputs("Write about tea.", "judge one on tea", "2: one has 60 ['i', 'k'] ['f'] tea", "judge two on tea", again, "3: two has 70 [] [] tea", "judge three on tea")
	if got := s.shown(t, "3: two has 70 [] [] tea"); got != "user:Write about tea.|assistant:one|user:2: one has 60 ['i', 'k'] ['f'] tea|assistant:two|user:3: two has 70 [] [] tea" {
		t.Errorf("the maker was shown %s", got)
	}
	if got := len(s.asked[6].Messages); got != 7 {
		t.Errorf("the judge was shown %d messages", got)
	}
	if !strings.HasPrefix(s.asked[0].System, "Write about {{ topic }}.") {
		t.Errorf("the system prompt was rendered: %q", s.asked[0].System)
	}
	h2 := judged(2, 60, "one", `["i", "k"]`, `["f"]`, "i; k")
	h3 := judged(3, 70, "two", `[]`, `[]`, "")
	h4 := judged(4, 80, "three", `[]`, `[]`, "")
	state := func(n int, draft string, score int, accepted bool, more string, history ...string) string {
		return fmt.Sprintf(`{"current_iteration": %d, "current_draft": %q, "iteration_history": [%s], "final_score": %d, "accepted": %t%s}`,
			n, draft, strings.Join(history, ","), score, accepted, more)
	}
	due := `, "pending_revision": true`
	s.history(
		`running {}`,
		`running `+state(1, "one", 0, false, ""),
		`running `+state(2, "one", 60, false, due, h2),
		`running `+state(3, "two", 60, false, "", h2),
		`running `+state(3, "two", 60, false, "", h2), // an answer that could not be read
		`running `+state(3, "two", 70, false, due, h2, h3),
		`running `+state(4, "three", 70, false, "", h2, h3),
		`running `+state(4, "three", 80, true, "", h2, h3, h4),
		`completed `+state(4, "three", 80, true, "", h2, h3, h4),
	)
	if got := s.artifact("o"); !strings.HasPrefix(got, "three 3 80 80 3 60 ") || !strings.HasSuffix(got, " [] - -") {
		t.Errorf("the artifact holds %q", got)
	}
	if got := s.reported(); !strings.HasPrefix(got, "workflow_start, step_start draft, step_complete draft, iteration_start 2, step_start eval/2#0, step_complete eval/2#0, step_start revise/2, step_complete revise/2, iteration_start 3, ") {
		t.Errorf("told: %s", got)
	}
}

func TestEvaluator_withTheWordsOfTheEngine(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"maker": {"one", "two"}, "judge": {`{"score": 0, "issues": ["dull"]}`, `{"score": 100}`}}))
	s.completes("two")(s.start(head + `
agents: {maker: {prompt: M}, judge: {prompt: J}}
pattern: {type: evaluator_optimizer, config: {producer: maker, evaluator: {agent: judge}, accept: {min_score: 100}}}
`))
	form := "\n\nAnswer with JSON only, in the form {\"score\": <0 to 100>, \"issues\": [\"...\"], \"fixes\": [\"...\"]}."
	s.wantInputs("M", "Judge this draft:\n\none"+form, "Improve this draft:\n\none\n\nIts score is 0 of 100.\n\nIssues:\n- dull\n\nAnswer with the improved text alone.", "Judge this draft:\n\ntwo"+form)
}

func TestEvaluator_oneAgentDoesBothAndRemembersInOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"both": {"one", "?", `{"score": 1}`, "two", `{"score": 99}`}}))
	s.completes("two")(s.start(head + `
agents: {both: {prompt: B}}
pattern: {type: evaluator_optimizer, config: {producer: both, evaluator: {agent: both, input: "j {{ draft }}"}, accept: {min_score: 90}, revise_prompt: r}}
`))
	if got := s.shown(t, "j two"); got != "user:B|assistant:one|user:j one|assistant:?|user:Your last answer could not be read as JSON. Judge this draft:\n\none\n\n"+
		"Answer with JSON only, in the form {\"score\": <0 to 100>, \"issues\": [\"...\"], \"fixes\": [\"...\"]}.|assistant:{\"score\": 1}|user:r|assistant:two|user:j two" {
		t.Errorf("the agent was shown %s", got)
	}
}

func TestEvaluator_givesUpAndGoesOnWithMoreIterations(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"maker": {"one", "two", "three"}, "judge": {`{"score": 10}`, `{"score": 20}`, `{"score": 90}`}}))
	fails := s.fails("EvaluatorOptimizerExecutionError", "", "score 20 of at least 80 after 2 evaluations")
	fails(s.start(evaluating("2", "")))
	if score, _ := s.state().Pattern.Get("final_score"); score != 20 {
		t.Errorf("the score is %v", score)
	}
	fails(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 4 {
		t.Errorf("%d calls", s.calls())
	}
	s.rewrite(evaluating("3", ""))
	s.completes("three")(s.resume(workflow.ResumeOptions{AcceptChanges: true}))
	if got := s.inputs()[4]; got != "3: two has 20 [] [] tea" {
		t.Errorf("the revision was asked %q", got)
	}
	if s.calls() != 6 {
		t.Errorf("%d calls", s.calls())
	}
}

func TestEvaluator_evaluationThatCannotBeReadFailsAfterTwoTries(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"maker": {"one"}, "judge": {`{"score": 101}`, `{"score": 85.5}`}}))
	s.fails("EvaluatorOptimizerExecutionError", "", "evaluation 2 could not be read")(s.start(evaluating("3", "")))
	s.fails("EvaluatorOptimizerExecutionError", "", "evaluation 2 could not be read")(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 5 { // the judge is asked as often again
		t.Errorf("%d calls", s.calls())
	}
}

const evaluatorGate = `    review_gate: {type: hitl, prompt: "{{ iteration_index }} {{ current_draft }} {{ current_evaluation.score }} {{ iterations[0].draft }} {{ topic }}", validation: {pattern: "^(go|st)"}}`

func TestEvaluator_gateStopsOrGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"maker": {"one", "two", "three"}, "judge": {`{"score": 10}`, `{"score": 20}`}}))
	s.pauses("0 one 10 one tea")(s.start(evaluating("3", evaluatorGate)))
	if _, err := s.answer("never"); err == nil {
		t.Error("an answer was taken that does not match")
	}
	s.pauses("0 one 10 one tea")(s.resume(workflow.ResumeOptions{}))
	s.pauses("1 two 20 one tea")(s.answer("go on"))
	s.completes("two")(s.answer("stop"))
	s.wantInputs("Write about tea.", "judge one on tea", "2: one has 10 [] [] tea go on", "judge two on tea")
	h2, h3 := judged(2, 10, "one", "[]", "[]", ""), judged(3, 20, "two", "[]", "[]", "")
	state := func(status string, n int, draft string, score int, pending string, asked string, history ...string) string {
		return fmt.Sprintf(`%s {"current_iteration": %d, "current_draft": %q, "iteration_history": [%s], "final_score": %d, "accepted": false, "pending_revision": %s%s}`,
			status, n, draft, strings.Join(history, ","), score, pending, asked)
	}
	ask := func(i, prompt string) string {
		return `, "hitl_state": ` + hitl(`"iteration_index": `+i+`, "prompt": "`+prompt+`"`)
	}
	knows := func(i, prompt, answer string) string {
		return `, "hitl_state": ` + hitl(`"active": false, "iteration_index": `+i+`, "prompt": "`+prompt+`", "user_response": "`+answer+`"`)
	}
	s.history(
		`running {}`,
		`running {"current_iteration": 1, "current_draft": "one", "iteration_history": [], "final_score": 0, "accepted": false}`,
		state("running", 2, "one", 10, "true", "", h2),
		state("paused", 2, "one", 10, "true", ask("0", "0 one 10 one tea"), h2),
		state("running", 2, "one", 10, "true", knows("0", "0 one 10 one tea", "go on"), h2),
		state("running", 3, "two", 10, "false", knows("0", "0 one 10 one tea", "go on"), h2),
		state("running", 3, "two", 20, "true", knows("0", "0 one 10 one tea", "go on"), h2, h3),
		state("paused", 3, "two", 20, "true", ask("1", "1 two 20 one tea"), h2, h3),
		state("running", 3, "two", 20, "true", knows("1", "1 two 20 one tea", "stop"), h2, h3),
		state("completed", 3, "two", 20, "true", knows("1", "1 two 20 one tea", "stop"), h2, h3),
	)
	if got := s.artifact("o"); !strings.HasPrefix(got, "two 2 20 80 3 10 ") || !strings.HasSuffix(got, " True user_requested_at_resume") {
		t.Errorf("the artifact holds %q", got)
	}
}

func TestEvaluator_failureKeepsTheNumbersOnResume(t *testing.T) {
	t.Parallel()
	broken := true
	play := lines(map[string][]string{"maker": {"one", "two"}, "judge": {`{"score": 10}`, `{"score": 90}`}})
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if strings.HasPrefix(input(r), "judge two") && broken {
			return llm.Response{}, &llm.ProviderError{Provider: "scripted", Message: "gone"}
		}
		return play(r)
	})
	s.fails(workflow.KindProvider, "eval/3#0")(s.start(evaluating("3", "")))
	broken = false
	s.completes("two")(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("Write about tea.", "judge one on tea", "2: one has 10 [] [] tea", "judge two on tea", "judge two on tea")
}
