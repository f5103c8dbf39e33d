package spec_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func TestLoad_fillsInDefaults(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf("telemetry: {otel: {}}", "context_policy: {compaction: {}, notes: {file: n.md}}",
		"tools: {http_executors: [{id: x, base_url: 'https://a.org'}]}"))
	if got, want := *s.Telemetry.OTel, (spec.OTel{SampleRatio: 1}); got != want {
		t.Errorf("otel is %+v", got)
	}
	if len(s.Warnings) != 1 || s.Warnings[0].Pointer != "/telemetry" || !strings.Contains(s.Warnings[0].Reason, "has no effect") {
		t.Errorf("the warnings are %v", s.Warnings)
	}
	if got, want := s.Telemetry.Redact, (spec.Redact{ToolInputs: true}); got != want {
		t.Errorf("redact is %+v", got)
	}
	want := spec.Compaction{Enabled: true, WhenTokensOver: 60000, SummaryRatio: 0.35, PreserveRecentMessages: 12}
	if got := *s.Context.Compaction; got != want {
		t.Errorf("compaction is %+v", got)
	}
	if got, want := *s.Context.Notes, (spec.Notes{File: "n.md", IncludeLast: 12, Format: "markdown"}); got != want {
		t.Errorf("notes are %+v", got)
	}
	if got := s.Tools.HTTPExecutors[0].TimeoutMS; got != 30000 {
		t.Errorf("timeout is %d", got)
	}
	if got, want := s.Runtime.FailurePolicy.Retry(), (spec.Retry{Retries: 2, Backoff: spec.Exponential, WaitMin: 1, WaitMax: 60}); got != want {
		t.Errorf("retry is %+v", got)
	}
	if half := load(t, yamlOf("runtime: {provider: x, budgets: {warn_threshold: 0.5}}")); half.Runtime.Budgets.Warn() != 0.5 {
		t.Errorf("budget warns at %v", half.Runtime.Budgets.Warn())
	}
	if s.Runtime.Budgets.Warn() != 0.8 || s.Runtime.MaxParallel != nil {
		t.Errorf("budget warns at %v, parallel is %v", s.Runtime.Budgets.Warn(), s.Runtime.MaxParallel)
	}
	s = load(t, yamlOf(config("routing", "router: {agent: a}, routes: {r: {then: [{agent: a}]}}")))
	if s.Pattern.Routing.Router.MaxRetries != 2 {
		t.Errorf("router is %+v", s.Pattern.Routing.Router)
	}
	s = load(t, yamlOf(config("evaluator_optimizer", "producer: a, evaluator: {agent: a}, accept: {min_score: 0}")))
	if e := s.Pattern.Evaluator; e.Accept.MaxIters != 3 || e.Judge.Input != nil || e.RevisePrompt != nil || e.Gate != nil {
		t.Errorf("evaluator is %+v", e)
	}
	s = load(t, yamlOf(config("graph", "nodes: {x: {agent: a}}, edges: [{from: x}]")))
	if g := s.Pattern.Graph; g.MaxIterations != 10 {
		t.Errorf("graph is %+v", g)
	}
}

func TestLoad_keepsWrittenBudgetsAndPoliciesApartFromDefaults(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf("runtime: {provider: x, budgets: {max_tokens: 9}, failure_policy: {retries: 0, wait_max: 2.5}}"))
	if got, want := jsonOf(t, s.Runtime), `{"provider":"x","budgets":{"max_tokens":9},"failure_policy":{"retries":0,"wait_max":2.5}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := s.Runtime.FailurePolicy.Retry(), (spec.Retry{Retries: 0, Backoff: spec.Exponential, WaitMin: 1, WaitMax: 2.5}); got != want {
		t.Errorf("retry is %+v", got)
	}
}

func TestLoad_tellsAbsentFromEmpty(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf("agents: {a: {prompt: x}, b: {prompt: x, tools: []}}", "security: {guardrails: {allow_tools: []}}",
		config("graph", "nodes: {x: {agent: a}, y: {agent: b, input: ''}}, edges: [{from: x, to: [y]}]")))
	a, _ := s.Agents.Get("a")
	b, _ := s.Agents.Get("b")
	if a.Tools != nil || b.Tools == nil {
		t.Errorf("tools are %#v and %#v", a.Tools, b.Tools)
	}
	if s.Security.Guardrails.AllowTools == nil {
		t.Error("an empty list of allowed tools was lost")
	}
	x, _ := s.Pattern.Graph.Nodes.Get("x")
	y, _ := s.Pattern.Graph.Nodes.Get("y")
	if x.Input != nil || y.Input == nil || *y.Input != "" {
		t.Errorf("inputs are %v and %v", x.Input, y.Input)
	}
}

func TestLoad_keepsTheOrderOfNames(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf(
		"agents: {z: {prompt: x}, a: {prompt: x}, m: {prompt: x}}",
		config("routing", "router: {agent: a}, routes: {zeta: {then: [{agent: a}]}, 'alpha 1': {then: [{agent: a}]}, mid: {}}"),
	))
	if got := strings.Join(s.Agents.Names(), ","); got != "z,a,m" {
		t.Errorf("agents are %s", got)
	}
	if got := strings.Join(s.Pattern.Routing.Routes.Names(), ","); got != "zeta,alpha 1,mid" {
		t.Errorf("routes are %s", got)
	}
	s = load(t, yamlOf(config("graph", "nodes: {last: {agent: a}, first: {agent: a}}, edges: [{from: last, to: [first]}]")))
	if got := strings.Join(s.Pattern.Graph.Nodes.Names(), ","); got != "last,first" {
		t.Errorf("nodes are %s", got)
	}
}

func TestLoad_valuesAreWrittenThenDefaultsThenVariables(t *testing.T) {
	t.Parallel()
	text := yamlOf(`inputs:
  required:
    r1: {type: string, default: R1}
    r2: {type: string, default: never}
    r3: {type: integer}
  optional:
    o1: {type: integer, default: 0}
    o2: string
    o3: {type: array, default: [1, x]}
  values:
    v: 1.0
    r2: written`)
	s := load(t, text, spec.Entry[string]{Name: "new", Value: "N"}, spec.Entry[string]{Name: "v", Value: "2"}, spec.Entry[string]{Name: "r3", Value: "5"},
		spec.Entry[string]{Name: "new", Value: "N2"})
	want := spec.Map[any]{
		{Name: "v", Value: "2"}, {Name: "r2", Value: "written"}, {Name: "r1", Value: "R1"}, {Name: "o1", Value: int64(0)},
		{Name: "o3", Value: []any{int64(1), "x"}}, {Name: "new", Value: "N2"}, {Name: "r3", Value: "5"},
	}
	if !reflect.DeepEqual(s.Inputs.Values, want) {
		t.Errorf("got  %v\nwant %v", s.Inputs.Values, want)
	}
	if s.Missing() != nil || s.Warnings != nil {
		t.Errorf("missing %v, warnings %v", s.Missing(), s.Warnings)
	}
}

func TestComplete_refusesVariablesThatNothingUses(t *testing.T) {
	t.Parallel()
	const inputs = `inputs: {required: {topic: string, guests: {type: integer}}, optional: {kind: {type: string, enum: [a, b]}}, values: {v: 1}}`
	for name, c := range map[string]struct {
		name, value, reason string
	}{
		"a typo":           {"topci", "x", `the spec has no such input; did you mean "topic"?`},
		"another":          {"anything", "x", "the spec has no such input; it has guests, kind, topic, v"},
		"a wrong type":     {"guests", "many", "has a value that is not of type integer"},
		"none of its kind": {"kind", "c", "has a value that is not in its enum"},
		"written":          {"v", "2", ""},
		"in a template":    {"x", "2", ""},
		"declared":         {"kind", "a", ""},
	} {
		text := yamlOf(inputs, `outputs: {artifacts: [{path: p, from: "{{ x }}"}]}`)
		vars := []spec.Entry[string]{{Name: "topic", Value: "t"}, {Name: "guests", Value: "1"}}
		if i := slices.IndexFunc(vars, func(v spec.Entry[string]) bool { return v.Name == c.name }); i >= 0 {
			vars = slices.Delete(vars, i, i+1)
		}
		err := load(t, text, append(vars, spec.Entry[string]{Name: c.name, Value: c.value})...).Complete()
		var invalid *session.InvalidError
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.reason != "" && (!errors.As(err, &invalid) || invalid.Field != "inputs."+c.name || invalid.Reason != c.reason):
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
	}
}

func TestComplete_listsEveryRequiredInputWithoutAValue(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf("inputs: {required: {b: string, a: integer, c: {type: string, default: x}}}"))
	err := s.Complete()
	if !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "b, a") || strings.Contains(err.Error(), "c") {
		t.Errorf("%v", err)
	}
}

func TestModelOf_agentOverridesRuntime(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf(
		"runtime: {provider: ollama, host: 'http://h:1', region: r, model_id: m, temperature: 1, top_p: 0.5, max_tokens: 7}",
		"agents: {same: {prompt: x, provider: ollama, model_id: n}, other: {prompt: x, provider: openai, inference: {temperature: 0}}}",
		config("chain", "steps: [{agent: same}]"),
	))
	same, _ := s.Agents.Get("same")
	if m := s.ModelOf(same); m.Host != "http://h:1" || m.Region != "r" || m.ModelID != "n" || *m.Temperature != 1 {
		t.Errorf("%+v", m)
	}
	other, _ := s.Agents.Get("other")
	if m := s.ModelOf(other); m.Host != "" || m.Region != "" || m.Provider != "openai" || m.ModelID != "m" || *m.Temperature != 0 || *m.TopP != 0.5 || *m.MaxTokens != 7 {
		t.Errorf("%+v", m)
	}
}

func TestLoad_warns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, pointer, reason string }{
		"type":       {"inputs: {required: {n: integer}, values: {n: 1.5}}", "/inputs/required/n", "has a value that is not of type integer"},
		"type text":  {"inputs: {optional: {n: {type: boolean, default: maybe}}}", "/inputs/optional/n", "has a value that is not of type boolean"},
		"enum":       {"inputs: {optional: {n: {type: string, enum: [a, b], default: c}}}", "/inputs/optional/n", "has a value that is not in its enum"},
		"type list":  {"inputs: {optional: {n: {type: array, default: 5}}}", "/inputs/optional/n", "has a value that is not of type array"},
		"type map":   {"inputs: {optional: {n: {type: object, default: [5]}}}", "/inputs/optional/n", "has a value that is not of type object"},
		"prompt":     {"agents: {a: {prompt: 'Hello {{ name }}'}}", "/agents/a/prompt", "looks like a template, but an agent's prompt is sent as it is"},
		"tool":       {"agents: {a: {prompt: x, tools: [calculator, nothing]}}", "/agents/a/tools/1", `names the tool "nothing", which there is not`},
		"redaction":  {"security: {guardrails: {pii_redaction: true}}", "/security/guardrails/pii_redaction", "has no effect: nothing is redacted"},
		"mounts":     {"env: {mounts: {a: b}}", "/env/mounts", "has no effect"},
		"servers":    {"context_policy: {retrieval: {mcp_servers: [a]}}", "/context_policy/retrieval/mcp_servers", "has no effect"},
		"credential": {"tools: {mcp: [{id: m, url: 'https://a.org', headers: {X-Api-Key: abc}}]}", "/tools/mcp/0/headers/X-Api-Key", "looks like a credential in plain text, and a session keeps a copy of its spec; write ${NAME} instead"},
		"edge":       {config("graph", "nodes: {x: {agent: a}, y: {agent: a}}, edges: [{from: x, to: [y]}, {from: x, to: [x]}]"), "/pattern/config/edges/1", `is never taken: edge 0 leads from "x" already`},
	} {
		s := load(t, yamlOf(c.section))
		if want := []spec.Warning{{Pointer: c.pointer, Reason: c.reason}}; !reflect.DeepEqual(s.Warnings, want) {
			t.Errorf("%s: got %v, want %v", name, s.Warnings, want)
		}
	}
}

func TestLoad_doesNotWarnOfWhatIsFine(t *testing.T) {
	t.Parallel()
	for _, section := range []string{
		"inputs: {required: {n: integer}, values: {n: '5'}}",
		"inputs: {required: {n: number}, values: {n: 5}}",
		"inputs: {optional: {n: {type: integer, enum: [1, 2], default: 2}}}",
		"inputs: {optional: {n: {type: integer, enum: [1, 2]}}, values: {n: '2'}}",
		"inputs: {optional: {n: {type: number, enum: [0.5]}}, values: {n: '0.5'}}",
		"inputs: {optional: {n: {type: boolean, default: false, enum: [false]}}, values: {n: 'false'}}",
		"inputs: {optional: {n: {type: boolean, default: false}}}",
		"inputs: {optional: {n: {type: array, default: [1]}, o: {type: object, default: {a: 1}}}}",
		"agents: {a: {prompt: x, tools: [strands_cli.tools.grep, web_fetch]}}",
		"tools: {mcp: [{id: m, url: 'https://a.org', headers: {Authorization: 'Bearer ${TOKEN}', Accept: x}}]}",
	} {
		if s := load(t, yamlOf(section)); s.Warnings != nil {
			t.Errorf("%s: %v", section, s.Warnings)
		}
	}
}
