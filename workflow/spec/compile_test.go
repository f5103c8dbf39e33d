package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// everyText is, for each pattern, a spec with a bad text in every place, and
// their pointers; those of texts for a person begin with a question mark.
func everyText() map[string]struct{ sections, pointers []string } {
	const hitl = "{type: hitl, prompt: '{{ p', context_display: '{{ c'}"
	return map[string]struct{ sections, pointers []string }{
		"chain": {
			[]string{config("chain", "steps: [{agent: a, input: '{{'}, "+hitl+"]"), "outputs: {artifacts: [{path: '{{', from: '{{'}]}"},
			[]string{"/outputs/artifacts/0/from", "/outputs/artifacts/0/path", "/pattern/config/steps/0/input", "?/pattern/config/steps/1/context_display", "?/pattern/config/steps/1/prompt"},
		},
		"workflow": {
			[]string{config("workflow", "tasks: [{id: x, agent: a, input: '{{'}, {id: y, type: hitl, prompt: '{{'}]")},
			[]string{"/pattern/config/tasks/0/input", "?/pattern/config/tasks/1/prompt"},
		},
		"routing": {
			[]string{config("routing", "router: {agent: a, input: '{{', review_router: "+hitl+"}, routes: {r: {then: [{agent: a, input: '{{'}]}}")},
			[]string{"/pattern/config/router/input", "/pattern/config/routes/r/then/0/input", "?/pattern/config/router/review_router/context_display", "?/pattern/config/router/review_router/prompt"},
		},
		"parallel": {
			[]string{config("parallel", "branches: [{id: x, steps: [{agent: a, input: '{{'}]}, {id: y, steps: [{agent: a}]}], reduce: {agent: a, input: '{{'}")},
			[]string{"/pattern/config/branches/0/steps/0/input", "/pattern/config/reduce/input"},
		},
		"evaluator": {
			[]string{"agents: {a: {prompt: '{{'}, b: {prompt: '{{'}}", config("evaluator_optimizer", "producer: a, evaluator: {agent: b, input: '{{'}, accept: {min_score: 1}, revise_prompt: '{{', review_gate: "+hitl)},
			[]string{"/agents/a/prompt", "/pattern/config/evaluator/input", "/pattern/config/revise_prompt", "?/pattern/config/review_gate/context_display", "?/pattern/config/review_gate/prompt"},
		},
		"orchestrator": {
			[]string{config("orchestrator_workers", "orchestrator: {agent: a}, worker_template: {agent: a}, reduce: {agent: a, input: '{{'}, writeup: {agent: a, input: '{{'}, decomposition_review: "+hitl+", reduce_review: {type: hitl, prompt: '{{'}")},
			[]string{"/pattern/config/reduce/input", "/pattern/config/writeup/input", "?/pattern/config/decomposition_review/context_display", "?/pattern/config/decomposition_review/prompt", "?/pattern/config/reduce_review/prompt"},
		},
		"graph": {
			[]string{config("graph", "nodes: {x: {agent: a, input: '{{'}, y: "+hitl+"}, edges: [{from: x, choose: [{when: '{{', to: y}]}]")},
			[]string{"/pattern/config/edges/0/choose/0/when", "/pattern/config/nodes/x/input", "?/pattern/config/nodes/y/context_display", "?/pattern/config/nodes/y/prompt"},
		},
	}
}

func TestLoad_compilesEveryTemplateAndCondition(t *testing.T) {
	t.Parallel()
	for name, c := range everyText() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(yamlOf(c.sections...))
			wrong := refused(t, err)
			got := []string{wrong.Pointer}
			for _, p := range wrong.Also {
				got = append(got, p.Pointer)
			}
			var fails, all []string
			for _, p := range c.pointers {
				p, question := strings.CutPrefix(p, "?")
				if !question {
					fails = append(fails, p)
				}
				all = append(all, p)
			}
			if !slices.Equal(got, fails) {
				t.Errorf("got  %v\nwant %v", got, fails)
			}

			s, err := spec.Loader{Lenient: true}.Parse(spec.Source{Path: "demo.yaml", Data: []byte(yamlOf(c.sections...))}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			for _, w := range s.Warnings {
				if !strings.Contains(w.Reason, "sent as it is") {
					got = append(got, w.Pointer)
				}
			}
			slices.Sort(got)
			slices.Sort(all)
			if !slices.Equal(got, all) {
				t.Errorf("warned of %v\nwant      %v", got, all)
			}
		})
	}
}

func TestLoad_aBadTextForAPersonOnlyWarns(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf(config("chain", "steps: [{type: hitl, prompt: '{{', context_display: '{% nothing %}'}]")))
	if len(s.Warnings) != 2 {
		t.Errorf("%v", s.Warnings)
	}
}

func TestLoad_conditionsAndTemplatesAreDifferentLanguages(t *testing.T) {
	t.Parallel()
	graph := func(input, when string) string {
		return yamlOf(config("graph", "nodes: {x: {agent: a, input: \""+input+"\"}, y: {agent: a}}, edges: [{from: x, choose: [{when: \""+when+"\", to: y}]}]"))
	}
	load(t, graph("{{ x | tojson }}", "nodes.x.response | search('a')"))
	for _, c := range []struct{ input, when, pointer, reason string }{
		{"one\\n{{ x | search('a') }}", "else", "/pattern/config/nodes/x/input", "unknown filter search (line 2, column 8 of the text)"},
		{"x", "x | tojson", "/pattern/config/edges/0/choose/0/when", "unknown filter tojson (line 1, column 5 of the text)"},
	} {
		_, err := parse(graph(c.input, c.when))
		if wrong := refused(t, err); wrong.Pointer != c.pointer || wrong.Reason != c.reason {
			t.Errorf("%v", wrong)
		}
	}
}

func TestTakes_searchesAsPythonDoes(t *testing.T) {
	t.Parallel()
	gate := func(validation string) *spec.Ask {
		s := load(t, yamlOf(config("evaluator_optimizer", "producer: a, evaluator: {agent: a}, accept: {min_score: 1}, review_gate: {type: hitl, prompt: p"+validation+"}")))
		return s.Pattern.Evaluator.Gate
	}
	for _, c := range []struct {
		validation, answer string
		want               bool
	}{
		{"", "", true},
		{", validation: {pattern: '^(yes|no)$'}", "yes", true},
		{", validation: {pattern: '^(yes|no)$'}", "YES", false},
		{", validation: {pattern: '(?i)ok'}", "it is OK so", true},
		{", validation: {pattern: '(?<!not )ready'}", "not ready", false},
	} {
		if got, err := gate(c.validation).Takes(c.answer); err != nil || got != c.want {
			t.Errorf("%s takes %q: %v, %v", c.validation, c.answer, got, err)
		}
	}
}
