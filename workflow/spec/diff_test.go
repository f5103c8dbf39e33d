package spec_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func TestDiff_pointsAtWhatChanged(t *testing.T) {
	t.Parallel()
	graph := func(nodes string) string {
		return config("graph", "nodes: {"+nodes+"}, edges: [{from: x, to: [y]}]")
	}
	for name, c := range map[string]struct {
		older, newer []string
		want         string
	}{
		"nothing":        {nil, nil, ""},
		"white space":    {[]string{"name: demo"}, []string{"name:   'demo'"}, ""},
		"default":        {[]string{"telemetry: {}"}, []string{"telemetry: {redact: {tool_inputs: true}}"}, ""},
		"value":          {[]string{"description: a"}, []string{"description: b"}, "/description"},
		"kind":           {[]string{"version: 1"}, []string{"version: '1'"}, "/version"},
		"integer, float": {[]string{"inputs: {values: {a: 1, b: 2}}"}, []string{"inputs: {values: {a: 1.0, b: 2}}"}, "/inputs/values/a"},
		"added":          {nil, []string{"agents: {a: {prompt: Be brief.}, b: {prompt: x}}", "tags: [t]"}, "/agents/b /tags"},
		"removed":        {[]string{"tags: [t]"}, nil, "/tags"},
		"step": {
			[]string{config("chain", "steps: [{agent: a, input: x}, {agent: a}]")},
			[]string{config("chain", "steps: [{agent: a, input: y}, {agent: a}, {type: hitl, prompt: p}]")},
			"/pattern/config/steps/0/input /pattern/config/steps/2",
		},
		"order of nodes": {[]string{graph("x: {agent: a}, y: {agent: a}")}, []string{graph("y: {agent: a}, x: {agent: a}")}, "/pattern/config/nodes"},
		"odd names":      {[]string{"inputs: {values: {a/b: 1}}"}, []string{"inputs: {values: {a/b: 2}}"}, "/inputs/values/a~1b"},
	} {
		got, err := spec.Diff(load(t, yamlOf(c.older...)), load(t, yamlOf(c.newer...)))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q (%v)", name, got, c.want, err)
		}
	}
}
