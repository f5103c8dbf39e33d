package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func TestLoad_saysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, pointer, reason string }{
		"no version":       {"version: !absent", "/version", "is missing (line 1)"},
		"version":          {"version: [1]", "/version", "is a list, not an integer or a string (line 1)"},
		"no name":          {"name: !absent", "/name", "is missing (line 1)"},
		"blank name":       {`name: " "`, "/name", "is blank (line 2)"},
		"name of a number": {"name: 5", "/name", "is an integer, not a string; put it in quotes (line 2)"},
		"empty key":        {"description:", "/description", "is null, not a string; leave the key out or give it a value (line 6)"},
		"unknown key":      {"promt: x", "/promt", "is an unknown key; known are agents, context_policy, description, env, inputs, metadata, name, outputs, pattern, runtime, security, skills, tags, telemetry, tools, version (line 6)"},
		"mistyped key":     {"agnets: x", "/agnets", `is an unknown key; did you mean "agents"? (line 6)`},
		"tag":              {"tags: [ok, Not]", "/tags/1", `"Not" does not match ^[a-z0-9][a-z0-9._-]*$ (line 6)`},
		"tag twice":        {"tags: [ok, ok]", "/tags/1", `"ok" is there twice (line 6)`},
		"key twice":        {"metadata: {name: a, name: b}", "/metadata/name", "is there twice (line 6)"},
		"key twice, free":  {"inputs: {optional: {n: {type: object, default: {a: [{b: 1, 'b': 2}]}}}}", "/inputs/optional/n/default/a/0/b", "is there twice (line 6)"},
		"metadata":         {"metadata: {label: {a: b}}", "/metadata/label", `is an unknown key; did you mean "labels"? (line 6)`},
		"label":            {"metadata: {labels: {a: 1}}", "/metadata/labels/a", "is an integer, not a string; put it in quotes (line 6)"},

		"no runtime":   {"runtime: !absent", "/runtime", "is missing (line 1)"},
		"no provider":  {"runtime: {}", "/runtime/provider", "is missing (line 3)"},
		"host":         {"runtime: {provider: ollama, host: 'localhost:1'}", "/runtime/host", "is not a URI with a scheme and a host (line 3)"},
		"temperature":  {"runtime: {provider: x, temperature: 2.5}", "/runtime/temperature", "is 2.5, more than 2 (line 3)"},
		"top_p":        {"runtime: {provider: x, top_p: -0.1}", "/runtime/top_p", "is -0.1, less than 0 (line 3)"},
		"max_tokens":   {"runtime: {provider: x, max_tokens: 0}", "/runtime/max_tokens", "is 0, less than 1 (line 3)"},
		"max_parallel": {"runtime: {provider: x, max_parallel: 1.5}", "/runtime/max_parallel", "is 1.5, not an integer (line 3)"},
		"budget":       {"runtime: {provider: x, budgets: {max_steps: 0}}", "/runtime/budgets/max_steps", "is 0, less than 1 (line 3)"},
		"threshold":    {"runtime: {provider: x, budgets: {warn_threshold: 80}}", "/runtime/budgets/warn_threshold", "is 80, more than 1 (line 3)"},
		"retries":      {"runtime: {provider: x, failure_policy: {retries: -1}}", "/runtime/failure_policy/retries", "is -1, less than 0 (line 3)"},
		"backoff":      {"runtime: {provider: x, failure_policy: {backoff: linear}}", "/runtime/failure_policy/backoff", `is "linear", not one of constant, exponential, jittered (line 3)`},
		"waits":        {"runtime: {provider: x, failure_policy: {wait_min: 61}}", "/runtime/failure_policy", "waits 61 s at least and 60 s at most (line 3)"},

		"input type":    {"inputs: {required: {n: text}}", "/inputs/required/n", `is "text", not one of string, number, integer, boolean, array, object (line 6)`},
		"untyped input": {"inputs: {optional: {n: {default: 1}}}", "/inputs/optional/n/type", "is missing (line 6)"},
		"null default":  {"inputs: {optional: {n: {type: string, default: null}}}", "/inputs/optional/n/default", "is null; leave the key out or give it a value (line 6)"},
		"input value":   {"inputs: {values: {n: [1]}}", "/inputs/values/n", "is a list, not a string, number or boolean (line 6)"},
		"secret key":    {"env: {secrets: [{key: a b, source: env}]}", "/env/secrets/0/key", `"a b" does not match ^[A-Za-z0-9._:-]+$ (line 6)`},
		"secret source": {"env: {secrets: [{key: a, source: vault}]}", "/env/secrets/0/source", `is "vault", not one of env, secrets_manager, ssm, file (line 6)`},
		"sample ratio":  {"telemetry: {otel: {sample_ratio: 2}}", "/telemetry/otel/sample_ratio", "is 2, more than 1 (line 6)"},
		"redact":        {"telemetry: {redact: {tool_inputs: no}}", "/telemetry/redact/tool_inputs", "is a string, not a boolean (line 6)"},
		"compaction":    {"context_policy: {compaction: {when_tokens_over: 999}}", "/context_policy/compaction/when_tokens_over", "is 999, less than 1000 (line 6)"},
		"notes":         {"context_policy: {notes: {format: markdown}}", "/context_policy/notes/file", "is missing (line 6)"},
		"notes format":  {"context_policy: {notes: {file: n, format: text}}", "/context_policy/notes/format", `is "text", not one of markdown, json (line 6)`},
		"jit tool":      {"context_policy: {retrieval: {jit_tools: [a.b]}}", "/context_policy/retrieval/jit_tools/0", `"a.b" does not match ^[A-Za-z0-9_-]+$ (line 6)`},
		"skill":         {"skills: [{id: s}]", "/skills/0/path", "is missing (line 6)"},

		"python tool":       {"tools: {python: [{}]}", "/tools/python/0/callable", "is missing (line 6)"},
		"executor":          {"tools: {http_executors: [{id: x}]}", "/tools/http_executors/0/base_url", "is missing (line 6)"},
		"executor scheme":   {"tools: {http_executors: [{id: x, base_url: 'ftp://a.org'}]}", "/tools/http_executors/0/base_url", "is not an http or https URL (line 6)"},
		"executor password": {"tools: {http_executors: [{id: x, base_url: 'https://u:p@a.org'}]}", "/tools/http_executors/0/base_url", "holds credentials; put them in a header as ${NAME} (line 6)"},
		"executor loopback": {"tools: {http_executors: [{id: x, base_url: 'http://127.0.0.1:80/'}]}", "/tools/http_executors/0/base_url", "leads to an address that is not public (127.0.0.1) (line 6)"},
		"executor mapped":   {"tools: {http_executors: [{id: x, base_url: 'http://[::ffff:100.64.0.1]/'}]}", "/tools/http_executors/0/base_url", "leads to an address that is not public (::ffff:100.64.0.1) (line 6)"},
		"executor metadata": {"tools: {http_executors: [{id: x, base_url: 'http://169.254.169.254'}]}", "/tools/http_executors/0/base_url", "leads to an address that is not public (169.254.169.254) (line 6)"},
		"executor carrier":  {"tools: {http_executors: [{id: x, base_url: 'http://100.64.1.1'}]}", "/tools/http_executors/0/base_url", "leads to an address that is not public (100.64.1.1) (line 6)"},
		"executor private":  {"tools: {http_executors: [{id: x, base_url: 'https://[fd00::1]/'}]}", "/tools/http_executors/0/base_url", "leads to an address that is not public (fd00::1) (line 6)"},
		"executor local":    {"tools: {http_executors: [{id: x, base_url: 'http://LocalHost./'}]}", "/tools/http_executors/0/base_url", "leads to this machine (localhost) (line 6)"},
		"endpoint":          {"tools: {http_executors: [{id: x, base_url: 'https://a.org', common_endpoints: [{path: /x}]}]}", "/tools/http_executors/0/common_endpoints/0/description", "is missing (line 6)"},
		"server":            {"tools: {mcp: [{id: x}]}", "/tools/mcp/0/command", "is missing (line 6)"},
		"server of both":    {"tools: {mcp: [{id: x, url: 'https://a.org', command: y}]}", "/tools/mcp/0/command", "is an unknown key; known are headers, id, url (line 6)"},

		"no agents":       {"agents: {}", "/agents", "has 0 of at least 1 (line 4)"},
		"no prompt":       {"agents: {a: {}}", "/agents/a/prompt", "is missing (line 4)"},
		"pointer escapes": {"agents: {'a/b~c': {prompt: 1}}", "/agents/a~1b~0c/prompt", "is an integer, not a string; put it in quotes (line 4)"},
		"agent key":       {"agents: {a: {prompt: x, tool: []}}", "/agents/a/tool", `is an unknown key; did you mean "tools"? (line 4)`},
		"agent inference": {"agents: {a: {prompt: x, inference: {top_k: 1}}}", "/agents/a/inference/top_k", `is an unknown key; did you mean "top_p"? (line 4)`},
		"agent schema":    {"agents: {a: {prompt: x, input_schema: 5}}", "/agents/a/input_schema", "is an integer, not a path or a schema (line 4)"},

		"no pattern":     {"pattern: !absent", "/pattern", "is missing (line 1)"},
		"pattern type":   {"pattern: {type: ring, config: {}}", "/pattern/type", `is "ring", not one of chain, workflow, routing, parallel, evaluator_optimizer, orchestrator_workers, graph (line 5)`},
		"no config":      {"pattern: {type: chain}", "/pattern/config", "is missing (line 5)"},
		"config of list": {"pattern: {type: chain, config: []}", "/pattern/config", "is a list, not a map (line 5)"},
		"config key":     {config("chain", "steps: [{agent: a}], stpes: 1"), "/pattern/config/stpes", `is an unknown key; did you mean "steps"? (line 5)`},
		"no steps":       {config("chain", "steps: []"), "/pattern/config/steps", "has 0 of at least 1 (line 5)"},
		"step":           {config("chain", "steps: [{input: x}]"), "/pattern/config/steps/0/agent", "is missing (line 5)"},
		"step vars":      {config("chain", "steps: [{agent: a, vars: {x: {}}}]"), "/pattern/config/steps/0/vars/x", "is a map, not a string, number or boolean (line 5)"},
		"step type":      {config("chain", "steps: [{type: human, prompt: x}]"), "/pattern/config/steps/0/type", `is "human", not one of hitl (line 5)`},
		"question":       {config("chain", "steps: [{type: hitl}]"), "/pattern/config/steps/0/prompt", "is missing (line 5)"},
		"timeout":        {config("chain", "steps: [{type: hitl, prompt: x, timeout_seconds: -1}]"), "/pattern/config/steps/0/timeout_seconds", "is -1, less than 0 (line 5)"},
		"both":           {config("chain", "steps: [{type: hitl, prompt: x, agent: a}]"), "/pattern/config/steps/0/agent", "is an unknown key; known are context_display, default, prompt, timeout_seconds, type (line 5)"},
		"no gate here":   {config("chain", "steps: [{type: hitl, prompt: x, validation: {pattern: y}}]"), "/pattern/config/steps/0/validation", "is an unknown key; known are context_display, default, prompt, timeout_seconds, type (line 5)"},
		"task":           {config("workflow", "tasks: [{agent: a}]"), "/pattern/config/tasks/0/id", "is missing (line 5)"},
		"deps twice":     {config("workflow", "tasks: [{id: x, agent: a}, {id: y, agent: a, deps: [x, x]}]"), "/pattern/config/tasks/1/deps/1", `"x" is there twice (line 5)`},
		"task vars":      {config("workflow", "tasks: [{id: x, agent: a, vars: {}}]"), "/pattern/config/tasks/0/vars", "is an unknown key; known are agent, deps, description, id, input (line 5)"},
		"router retries": {config("routing", "router: {agent: a, max_retries: -1}, routes: {r: {then: [{agent: a}]}}"), "/pattern/config/router/max_retries", "is -1, less than 0 (line 5)"},
		"router review":  {config("routing", "router: {agent: a, review_router: {agent: a}}, routes: {r: {then: [{agent: a}]}}"), "/pattern/config/router/review_router", "is not a question to a person; write type: hitl and a prompt (line 5)"},
		"no routes":      {config("routing", "router: {agent: a}, routes: {}"), "/pattern/config/routes", "has 0 of at least 1 (line 5)"},
		"one branch":     {config("parallel", "branches: [{id: x, steps: [{agent: a}]}]"), "/pattern/config/branches", "has 1 of at least 2 (line 5)"},
		"empty branch":   {config("parallel", "branches: [{id: x, steps: []}, {id: y, steps: [{agent: a}]}]"), "/pattern/config/branches/0/steps", "has 0 of at least 1 (line 5)"},
		"score":          {config("evaluator_optimizer", "producer: a, evaluator: {agent: a}, accept: {min_score: 101}"), "/pattern/config/accept/min_score", "is 101, more than 100 (line 5)"},
		"no score":       {config("evaluator_optimizer", "producer: a, evaluator: {agent: a}, accept: {max_iters: 1}"), "/pattern/config/accept/min_score", "is missing (line 5)"},
		"gate pattern":   {config("evaluator_optimizer", "producer: a, evaluator: {agent: a}, accept: {min_score: 1}, review_gate: {type: hitl, prompt: x, validation: {pattern: '('}}"), "/pattern/config/review_gate/validation/pattern", `is no pattern: pattern "(", position 1: missing ) (line 5)`},
		"gate of agent":  {config("orchestrator_workers", "orchestrator: {agent: a}, worker_template: {agent: a}, reduce_review: {agent: a}"), "/pattern/config/reduce_review", "is not a question to a person; write type: hitl and a prompt (line 5)"},
		"workers":        {config("orchestrator_workers", "orchestrator: {agent: a, limits: {max_workers: 0}}, worker_template: {agent: a}"), "/pattern/config/orchestrator/limits/max_workers", "is 0, less than 1 (line 5)"},
		"graph visits":   {config("graph", "max_iterations: 0, nodes: {x: {agent: a}}, edges: [{from: x}]"), "/pattern/config/max_iterations", "is 0, less than 1 (line 5)"},
		"no edges":       {config("graph", "nodes: {x: {agent: a}}, edges: []"), "/pattern/config/edges", "has 0 of at least 1 (line 5)"},
		"edge to a name": {config("graph", "nodes: {x: {agent: a}}, edges: [{from: x, to: x}]"), "/pattern/config/edges/0/to", "is a string, not a list (line 5)"},
		"edge of both":   {config("graph", "nodes: {x: {agent: a}}, edges: [{from: x, to: [x], choose: [{when: else, to: x}]}]"), "/pattern/config/edges/0", "has both to and choose; keep one (line 5)"},
		"choice":         {config("graph", "nodes: {x: {agent: a}}, edges: [{from: x, choose: [{to: x}]}]"), "/pattern/config/edges/0/choose/0/when", "is missing (line 5)"},

		"artifact":   {"outputs: {artifacts: [{path: x}]}", "/outputs/artifacts/0/from", "is missing (line 6)"},
		"guardrails": {"security: {guardrails: {deny_network: 1}}", "/security/guardrails/deny_network", "is an integer, not a boolean (line 6)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(yamlOf(c.section))
			wrong := refused(t, err)
			if wrong.File != "demo.yaml" || wrong.Pointer != c.pointer || wrong.Reason != c.reason {
				t.Errorf("got  %s: %s\nwant %s: %s", wrong.Pointer, wrong.Reason, c.pointer, c.reason)
			}
			if wrong.Also != nil {
				t.Errorf("also %v", wrong.Also)
			}
		})
	}
}

func TestLoad_saysEverythingWrongInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	_, err := parse("name: ''\nruntime:\n  provider: x\n  top_p: 3\n  max_tokens: 0\nagents:\n  a: {}\npattern: {type: chain, config: {steps: [{}]}}\nfoo: 1\n")
	wrong := refused(t, err)
	got := wrong.Pointer
	for _, p := range wrong.Also {
		got += " " + p.Pointer
	}
	want := "/name /version /runtime/top_p /runtime/max_tokens /agents/a/prompt /pattern/config/steps/0/agent /foo"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLoad_boundsWhatItSays(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "unheard%d: 1\n", i)
	}
	_, err := parse(yamlOf() + b.String())
	wrong := refused(t, err)
	if len(wrong.Also) != 50 || wrong.Also[49].Reason != "and 450 more" {
		t.Errorf("%d others, the last is %v", len(wrong.Also), wrong.Also[len(wrong.Also)-1])
	}
}

func TestLoad_privateHostsMayBeAllowedOneByOne(t *testing.T) {
	t.Parallel()
	text := func(url string) spec.Source {
		return spec.Source{Path: "a.yml", Data: []byte(yamlOf("tools: {http_executors: [{id: x, base_url: '" + url + "'}]}"))}
	}
	l := spec.Loader{AllowPrivate: []string{"localhost:8080", "10.0.0.1:443"}}
	for _, url := range []string{"http://localhost:8080/api", "http://LOCALHOST:8080", "https://10.0.0.1/"} {
		if _, err := l.Parse(text(url), nil); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"http://localhost:8081/", "http://10.0.0.1/", "http://10.0.0.2:443/"} {
		if _, err := l.Parse(text(url), nil); err == nil {
			t.Errorf("%s was taken", url)
		}
	}
}
