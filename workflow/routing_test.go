package workflow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

const routingSpec = head + `
inputs: {values: {topic: tea}}
agents: {router: {prompt: R}, a: {prompt: A}}
pattern:
  type: routing
  config:
    router: {agent: router, input: "Where to with {{ topic }}?"}
    routes:
      Billing: {then: [{agent: a, input: "bill {{ router.chosen_route }} {{ router.response }}"}, {type: hitl, prompt: "ok {{ steps[0].response }}?"}, {agent: a, input: "{{ hitl_response }}"}]}
      help: {then: [{agent: a, input: "help {{ topic }}"}]}
outputs: {artifacts: [{path: out.md, from: "{{ chosen_route }} {{ router_agent }} {{ router.response }} {{ steps[0].response }} {{ last_response }}"}]}
`

const asksForRoute = "Where to with tea?\n\nAnswer with JSON only, in the form {\"route\": \"<name>\"}. The routes are: Billing, help."

func TestRouting_choosesAndRunsLikeAChain(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"router": {`{"route": "Billing"}`}, "a": {"one", "two"}}))
	s.pauses("ok one?")(s.start(routingSpec))
	s.completes("two")(s.answer(""))
	s.wantInputs(asksForRoute, `bill Billing {"route": "Billing"}`, "")
	if got := s.reported(); got != "workflow_start, step_start router#0, step_complete router#0, routing_decision Billing, "+
		"step_start route/Billing/step/0, step_complete route/Billing/step/0, hitl_pause route/Billing/step/1, "+
		"workflow_start, hitl_answer route/Billing/step/1, step_start route/Billing/step/2, step_complete route/Billing/step/2, workflow_complete" {
		t.Errorf("told: %s", got)
	}
	if got := s.artifact("out.md"); got != `Billing router {"route": "Billing"} one two` {
		t.Errorf("the artifact holds %q", got)
	}
	decided := `"router_executed": true, "chosen_route": "Billing", "router_decision": {"chosen_route": "Billing", "response": "{\"route\": \"Billing\"}"}`
	step0 := `{"index": 0, "agent": "a", "response": "one", "tokens_estimated": 5}`
	step1 := `{"index": 1, "type": "hitl", "prompt": "ok one?", "response": "", "tokens_estimated": 0}`
	step2 := `{"index": 2, "agent": "a", "response": "two", "tokens_estimated": 1}`
	asks := hitl(`"step_index": 1, "prompt": "ok one?"`)
	knows := hitl(`"active": false, "step_index": 1, "prompt": "ok one?", "user_response": ""`)
	s.history(
		`running {}`,
		`running {`+decided+`, "route_state": {"current_step": 0, "step_history": []}}`,
		`running {`+decided+`, "route_state": {"current_step": 1, "step_history": [`+step0+`]}}`,
		`paused {`+decided+`, "route_state": {"current_step": 1, "step_history": [`+step0+`]}, "hitl_state": `+asks+`}`,
		`running {`+decided+`, "route_state": {"current_step": 2, "step_history": [`+step0+","+step1+`]}, "hitl_state": `+knows+`}`,
		`running {`+decided+`, "route_state": {"current_step": 3, "step_history": [`+step0+","+step1+","+step2+`]}, "hitl_state": `+knows+`}`,
		`completed {`+decided+`, "route_state": {"current_step": 3, "step_history": [`+step0+","+step1+","+step2+`]}, "hitl_state": `+knows+`}`,
	)
}

func TestRouting_unreadableAnswersAreAskedAgainInTheSameConversation(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"router": {"hm", `{"route": 1}`, "```json\n{\"route\": \"help\"}\n```"}, "a": {"done"}}))
	s.completes("done")(s.start(routingSpec))
	again := strings.Replace(asksForRoute, "\n\nAnswer", "\n\nYour last answer could not be read as JSON. Answer", 1)
	s.wantInputs(asksForRoute, again, again, "help tea")
	if got := len(s.asked[2].Messages); got != 5 {
		t.Errorf("the router was shown %d messages at its third try", got)
	}
	if got := len(s.asked[3].Messages); got != 1 {
		t.Errorf("the route was shown %d messages", got)
	}
	if use := s.state().Usage; use.ByAgent["router"] != 45 || use.ByAgent["a"] != 15 {
		t.Errorf("used: %+v", use)
	}
}

func TestRouting_givesUpAfterItsRetries(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"router": {"hm"}}))
	fails := s.fails("RoutingExecutionError", "", "could not be read after 3 tries")
	fails(s.start(routingSpec))
	fails(s.resume(workflow.ResumeOptions{}))
	if s.calls() != 6 { // it is asked as often again
		t.Errorf("%d calls", s.calls())
	}
}

func TestRouting_unknownRouteFailsAtOnceAndListsTheOthers(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"router": {`{"route": "billing"}`}}))
	s.fails("RoutingExecutionError", "", `"billing"`, "Billing, help")(s.start(routingSpec))
	if s.calls() != 1 {
		t.Errorf("%d calls", s.calls())
	}
}

const reviewedSpec = head + `
agents: {router: {prompt: R}, a: {prompt: A}}
pattern:
  type: routing
  config:
    router: {agent: router, input: go, review_router: {type: hitl, prompt: "{{ router.chosen_route }}?", context_display: "{{ router.response }}", default: "%s", timeout_seconds: 60}}
    routes: {one: {then: [{agent: a, input: "1 {{ router.chosen_route }}"}]}, Two: {then: [{agent: a, input: "2 {{ router.chosen_route }}"}]}}
`

func TestRouting_aPersonMayOverruleTheRouter(t *testing.T) {
	t.Parallel()
	for answer, asked := range map[string]string{" APPROVED\n": "1 one", "route:Two": "2 Two", "route: two ": "2 Two", "route:one": "1 one"} {
		s := newScene(t, lines(map[string][]string{"router": {`{"route": "one"}`}, "a": {"end"}}))
		s.pauses("one?")(s.start(reviewedSpec))
		for _, bad := range []string{"", "yes", "two", "route:three", "route:"} {
			_, err := s.answer(bad)
			if !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "one, Two") {
				t.Fatalf("the answer %q: %v", bad, err)
			}
		}
		s.pauses("one?")(s.resume(workflow.ResumeOptions{}))
		s.completes("end")(s.answer(answer))
		if got := s.inputs()[1]; got != asked {
			t.Errorf("after %q the agent was asked %q", answer, got)
		}
		chosen, _ := s.state().Pattern.Get("chosen_route")
		if want := strings.Fields(asked)[1]; chosen != want {
			t.Errorf("after %q the route in force is %v", answer, chosen)
		}
	}
}

func TestRouting_reviewStandsInTheState(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"router": {`{"route": "one"}`}, "a": {"end"}}))
	s.pauses("one?")(s.start(strings.Replace(reviewedSpec, `, default: "%s", timeout_seconds: 60`, "", 1)))
	s.completes("end")(s.answer("route:Two"))
	own := `"router_executed": true, "router_decision": {"chosen_route": "one", "response": "{\"route\": \"one\"}"}`
	asks := hitl(`"router_review": true, "prompt": "one?", "context_display": "{\"route\": \"one\"}"`)
	knows := hitl(`"active": false, "router_review": true, "prompt": "one?", "context_display": "{\"route\": \"one\"}", "user_response": "route:Two"`)
	step := `{"index": 0, "agent": "a", "response": "end", "tokens_estimated": 3}`
	s.history(
		`running {}`,
		`running {`+own+`, "chosen_route": "one"}`,
		`paused {`+own+`, "chosen_route": "one", "hitl_state": `+asks+`}`,
		`running {`+own+`, "chosen_route": "Two", "route_state": {"current_step": 0, "step_history": []}, "hitl_state": `+knows+`}`,
		`running {`+own+`, "chosen_route": "Two", "route_state": {"current_step": 1, "step_history": [`+step+`]}, "hitl_state": `+knows+`}`,
		`completed {`+own+`, "chosen_route": "Two", "route_state": {"current_step": 1, "step_history": [`+step+`]}, "hitl_state": `+knows+`}`,
	)
}
