package spec_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// here is a place with a key for openai.
func here(name string) string {
	return map[string]string{"OPENAI_API_KEY": "x"}[name]
}

func TestCheck_saysWhyASpecCannotBeRunAndWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		section string
		want    spec.Issue
	}{
		"notes elsewhere": {"context_policy: {notes: {file: ../n.md}}", spec.Issue{
			Pointer: "/context_policy/notes/file", Reason: `the notes file "../n.md" leads out of the working directory`, Remediation: "write a path below the working directory",
		}},
		"notes anywhere": {"context_policy: {notes: {file: /n.md}}", spec.Issue{
			Pointer: "/context_policy/notes/file", Reason: `the notes file "/n.md" leads out of the working directory`, Remediation: "write a path below the working directory",
		}},
		"empty config": {config("routing", ""), spec.Issue{
			Pointer: "/pattern/config", Reason: "the config is empty", Remediation: "write router, routes under config",
		}},
		"part missing": {config("routing", "router: {agent: a}"), spec.Issue{
			Pointer: "/pattern/config", Reason: "the config has no routes, which the pattern routing needs", Remediation: "write routes under config",
		}},
		"part of another": {config("chain", "steps: [{agent: a}], max_iterations: 3"), spec.Issue{
			Pointer: "/pattern/config/max_iterations", Reason: "the pattern chain has no max_iterations; graph has", Remediation: "leave it out, or write type: graph",
		}},
		"agent": {config("chain", "steps: [{agent: writer}]"), spec.Issue{
			Pointer: "/pattern/config/steps/0/agent", Reason: `there is no agent "writer"`, Remediation: "add it under agents, or use one of a",
		}},
		"agent of a task": {config("workflow", "tasks: [{id: t, agent: nobody}]"), spec.Issue{
			Pointer: "/pattern/config/tasks/0/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"agent of a router": {config("routing", "router: {agent: nobody}, routes: {r: {then: [{agent: a}]}}"), spec.Issue{
			Pointer: "/pattern/config/router/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"agent of a route": {config("routing", "router: {agent: a}, routes: {r: {then: [{agent: nobody}]}}"), spec.Issue{
			Pointer: "/pattern/config/routes/r/then/0/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"agent of a branch": {config("parallel", "branches: [{id: x, steps: [{agent: nobody}]}, {id: y, steps: [{agent: a}]}]"), spec.Issue{
			Pointer: "/pattern/config/branches/0/steps/0/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"agent of reduce": {config("parallel", "branches: [{id: x, steps: [{agent: a}]}, {id: y, steps: [{agent: a}]}], reduce: {agent: nobody}"), spec.Issue{
			Pointer: "/pattern/config/reduce/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"producer": {config("evaluator_optimizer", "producer: nobody, evaluator: {agent: a}, accept: {min_score: 1}"), spec.Issue{
			Pointer: "/pattern/config/producer", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"evaluator": {config("evaluator_optimizer", "producer: a, evaluator: {agent: nobody}, accept: {min_score: 1}"), spec.Issue{
			Pointer: "/pattern/config/evaluator/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"orchestrator": {config("orchestrator_workers", "orchestrator: {agent: nobody}, worker_template: {agent: a}"), spec.Issue{
			Pointer: "/pattern/config/orchestrator/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"worker": {config("orchestrator_workers", "orchestrator: {agent: a}, worker_template: {agent: nobody}"), spec.Issue{
			Pointer: "/pattern/config/worker_template/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"writeup": {config("orchestrator_workers", "orchestrator: {agent: a}, worker_template: {agent: a}, writeup: {agent: nobody}"), spec.Issue{
			Pointer: "/pattern/config/writeup/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"agent of a node": {config("graph", "nodes: {x: {agent: nobody}}, edges: [{from: x}]"), spec.Issue{
			Pointer: "/pattern/config/nodes/x/agent", Reason: `there is no agent "nobody"`, Remediation: "add it under agents, or use one of a",
		}},
		"task": {config("workflow", "tasks: [{id: gather, agent: a}, {id: t, agent: a, deps: [gatehr]}]"), spec.Issue{
			Pointer: "/pattern/config/tasks/1/deps/0", Reason: `there is no task "gatehr"`, Remediation: `did you mean "gather"?`,
		}},
		"task twice": {config("workflow", "tasks: [{id: t, agent: a}, {id: t, agent: a}]"), spec.Issue{
			Pointer: "/pattern/config/tasks/1/id", Reason: `the task id "t" is there twice`, Remediation: "give it an id of its own",
		}},
		"branch twice": {config("parallel", "branches: [{id: x, steps: [{agent: a}]}, {id: x, steps: [{agent: a}]}]"), spec.Issue{
			Pointer: "/pattern/config/branches/1/id", Reason: `the branch id "x" is there twice`, Remediation: "give it an id of its own",
		}},
		"cycle": {config("workflow", "tasks: [{id: s, agent: a}, {id: t, agent: a, deps: [s, v]}, {id: u, agent: a, deps: [t]}, {id: v, agent: a, deps: [u]}]"), spec.Issue{
			Pointer: "/pattern/config/tasks", Reason: "these tasks wait for each other: t → v → u → t", Remediation: "leave out one of these dependencies",
		}},
		"own dependency": {config("workflow", "tasks: [{id: t, agent: a, deps: [t]}]"), spec.Issue{
			Pointer: "/pattern/config/tasks", Reason: "these tasks wait for each other: t → t", Remediation: "leave out one of these dependencies",
		}},
		"behind a cycle": {config("workflow", "tasks: [{id: w, agent: a, deps: [t]}, {id: t, agent: a, deps: [u]}, {id: u, agent: a, deps: [t]}]"), spec.Issue{
			Pointer: "/pattern/config/tasks", Reason: "these tasks wait for each other: t → u → t", Remediation: "leave out one of these dependencies",
		}},
		"route": {config("routing", "router: {agent: a}, routes: {r: {then: [{agent: a}]}, s: {}}"), spec.Issue{
			Pointer: "/pattern/config/routes/s", Reason: `the route "s" has no steps`, Remediation: "give it steps under then, or leave the route out",
		}},
		"targets": {config("graph", "nodes: {x: {agent: a}, y: {agent: a}, z: {agent: a}}, edges: [{from: x, to: [y, z]}]"), spec.Issue{
			Pointer: "/pattern/config/edges/0/to", Reason: `the edge from "x" has 2 targets, and a run is in one node at a time`, Remediation: "keep one, or use choose with conditions",
		}},
		"no end": {config("graph", "nodes: {x: {agent: a}, y: {agent: a}}, edges: [{from: x, to: [y]}, {from: y, choose: [{when: else, to: x}]}]"), spec.Issue{
			Pointer: "/pattern/config/edges", Reason: "every node leads to another, so the run has no end", Remediation: "leave one node without edges: the run ends there",
		}},
		"unreached": {config("graph", "nodes: {x: {agent: a}, y: {agent: a}, z: {agent: a}}, edges: [{from: x, to: [y]}, {from: z, to: [y]}]"), spec.Issue{
			Pointer: "/pattern/config/nodes/z", Reason: `the node "z" is not reached from the first, "x"`, Remediation: "add an edge that leads to it, or leave it out",
		}},
		"node from": {config("graph", "nodes: {x: {agent: a}}, edges: [{from: elsewhere, to: [x]}]"), spec.Issue{
			Pointer: "/pattern/config/edges/0/from", Reason: `there is no node "elsewhere"`, Remediation: "add it under nodes, or use one of x",
		}},
		"node to": {config("graph", "nodes: {x: {agent: a}, y: {agent: a}}, edges: [{from: x, choose: [{when: else, to: elsewhere}, {when: else, to: y}]}]"), spec.Issue{
			Pointer: "/pattern/config/edges/0/choose/0/to", Reason: `there is no node "elsewhere"`, Remediation: "add it under nodes, or use one of x, y",
		}},
		"rounds": {config("orchestrator_workers", "orchestrator: {agent: a, limits: {max_rounds: 2}}, worker_template: {agent: a}"), spec.Issue{
			Pointer: "/pattern/config/orchestrator/limits/max_rounds", Reason: "2 rounds are asked for, and there is one plan and one round", Remediation: "write 1, or leave it out",
		}},
		"python": {"tools: {python: [strands_cli.tools.calculatr]}", spec.Issue{
			Pointer: "/tools/python/0", Reason: `there is no tool "strands_cli.tools.calculatr": code of one's own is not run`, Remediation: `did you mean "calculator"?`,
		}},
		"python_exec": {"tools: {python: [python_exec]}", spec.Issue{
			Pointer: "/tools/python/0", Reason: `the tool "python_exec" is not available: it would run code outside any sandbox`, Remediation: "leave it out",
		}},
		"tavily": {"agents: {a: {prompt: x, tools: [tavily_search]}}", spec.Issue{
			Pointer: "/agents/a/tools/0", Reason: `the tool "tavily_search" has no key`, Remediation: "set TAVILY_API_KEY",
		}},
		"override": {config("chain", "steps: [{agent: a, tool_overrides: [grep]}]"), spec.Issue{
			Pointer: "/pattern/config/steps/0/tool_overrides/0", Reason: `the tool "grep" is not under tools`, Remediation: "add it under tools",
		}},
		"secret": {"env: {secrets: [{key: k, source: ssm}]}", spec.Issue{
			Pointer: "/env/secrets/0/source", Reason: `the secret "k" comes from ssm, and only environment variables are read`, Remediation: "export the value as a variable and write source: env",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, yamlOf(c.section))
			if got := spec.Check(s, spec.Env{Getenv: here}); !reflect.DeepEqual(got, []spec.Issue{c.want}) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestCheck_namesTheAgentThatWasLikelyMeant(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"FactWriter": `did you mean "fact_writer"?`, "fact_wirter": `did you mean "fact_writer"?`,
		"b": "add it under agents, or use one of fact_writer, a",
	} {
		s := load(t, yamlOf("agents: {fact_writer: {prompt: x}, a: {prompt: x}}", config("chain", "steps: [{agent: "+written+"}]")))
		got := spec.Check(s, spec.Env{Getenv: here})
		if len(got) != 1 || got[0].Remediation != want {
			t.Errorf("%s: %+v", written, got)
		}
	}
}

func TestCheck_aMisfitHidesNoOtherMistake(t *testing.T) {
	t.Parallel()
	_, err := parse(yamlOf(config("chain", "steps: [{agnt: a}], tasks: []")))
	if wrong := refused(t, err); wrong.Pointer != "/pattern/config/steps/0/agent" && wrong.Pointer != "/pattern/config/steps/0/agnt" {
		t.Errorf("%v", wrong)
	}
}

func TestCheck_findsTheWayToEveryModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runtime string
		env     map[string]string
		want    string // the pointer and what to do; empty for none
	}{
		"openai":                 {"provider: openai", nil, "/runtime/provider: set OPENAI_API_KEY"},
		"openai with key":        {"provider: openai", map[string]string{"OPENAI_API_KEY": "k"}, ""},
		"blank key":              {"provider: openai", map[string]string{"OPENAI_API_KEY": " "}, "/runtime/provider: set OPENAI_API_KEY"},
		"own server":             {"provider: openai", map[string]string{"OPENAI_BASE_URL": "http://x"}, ""},
		"own server, our name":   {"provider: openai", map[string]string{"HOLDFAST_OPENAI_BASE_URL": "http://x"}, ""},
		"anthropic":              {"provider: anthropic", nil, "/runtime/provider: set ANTHROPIC_API_KEY"},
		"gemini":                 {"provider: gemini", nil, "/runtime/provider: set GOOGLE_API_KEY or GEMINI_API_KEY"},
		"gemini, second name":    {"provider: gemini", map[string]string{"GEMINI_API_KEY": "k"}, ""},
		"ollama":                 {"provider: ollama", nil, "/runtime/provider: set HOLDFAST_OLLAMA_BASE_URL or OLLAMA_HOST, or write runtime.host"},
		"ollama with host":       {"provider: ollama, host: 'http://h:1'", nil, ""},
		"ollama by variable":     {"provider: ollama", map[string]string{"OLLAMA_HOST": "h"}, ""},
		"bedrock":                {"provider: bedrock, model_id: m", nil, "/runtime/provider: set HOLDFAST_BEDROCK_BASE_URL to its base URL, or use openai, anthropic, gemini or ollama"},
		"bedrock without model":  {"provider: bedrock", map[string]string{"HOLDFAST_BEDROCK_BASE_URL": "http://x"}, "/runtime/model_id: write model_id"},
		"bedrock with both":      {"provider: bedrock, model_id: m", map[string]string{"HOLDFAST_BEDROCK_BASE_URL": "http://x"}, ""},
		"name with other signs":  {"provider: my-llm.eu, model_id: m", map[string]string{"HOLDFAST_MY_LLM_EU_BASE_URL": "http://x"}, ""},
		"served by the program":  {"provider: scripted", nil, ""},
		"azure, named as needed": {"provider: azure_openai, model_id: m", map[string]string{"HOLDFAST_AZURE_OPENAI_BASE_URL": "http://x"}, ""},
	} {
		s := load(t, yamlOf("runtime: {"+c.runtime+"}", "agents: {a: {prompt: x}, b: {prompt: x}}"))
		env := spec.Env{Getenv: func(name string) string { return c.env[name] }, Providers: []string{"scripted"}}
		var got []string
		for _, issue := range spec.Check(s, env) {
			got = append(got, issue.Pointer+": "+issue.Remediation)
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCheck_providerOfAnAgentIsItsOwn(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf("agents: {a: {prompt: x}, b: {prompt: x, provider: anthropic}}"))
	got := spec.Check(s, spec.Env{Getenv: here})
	if len(got) != 1 || got[0].Pointer != "/agents/b/provider" || got[0].Remediation != "set ANTHROPIC_API_KEY" {
		t.Errorf("%+v", got)
	}
}

func TestConnection_ofEachProvider(t *testing.T) {
	t.Parallel()
	vars := map[string]string{
		"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k", "HOLDFAST_GROQ_BASE_URL": "https://groq", "HOLDFAST_GROQ_API_KEY": "k",
		"OLLAMA_HOST": "http://second", "HOLDFAST_OLLAMA_BASE_URL": "http://first",
	}
	for runtime, want := range map[string]spec.Connection{
		"provider: openai":                          {Provider: "openai", Protocol: spec.OpenAIProtocol, ModelID: "gpt-4o-mini", KeyEnv: "OPENAI_API_KEY"},
		"provider: openai, host: 'http://mine'":     {Provider: "openai", Protocol: spec.OpenAIProtocol, ModelID: "gpt-4o-mini", KeyEnv: "OPENAI_API_KEY", BaseURL: "http://mine"},
		"provider: anthropic, host: 'http://mine'":  {Provider: "anthropic", Protocol: spec.AnthropicProtocol, ModelID: "claude-sonnet-4-20250514", BaseURL: "http://mine"},
		"provider: gemini":                          {Provider: "gemini", Protocol: spec.OpenAIProtocol, ModelID: "gemini-2.5-flash", KeyEnv: "GEMINI_API_KEY", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai"},
		"provider: ollama, host: 'http://spec'":     {Provider: "ollama", Protocol: spec.OpenAIProtocol, ModelID: "gpt-oss", BaseURL: "http://first"},
		"provider: groq, model_id: m, region: here": {Provider: "groq", Protocol: spec.OpenAIProtocol, ModelID: "m", KeyEnv: "HOLDFAST_GROQ_API_KEY", BaseURL: "https://groq"},
	} {
		s := load(t, yamlOf("runtime: {"+runtime+"}"))
		got, ok := s.Connection(s.Agents[0].Value, spec.Env{Getenv: func(name string) string { return vars[name] }})
		if !ok || got != want {
			t.Errorf("%s: got %+v, %v", runtime, got, ok)
		}
	}
}

func TestCheck_takesTheToolsThereAre(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf("tools: {python: [grep, strands_cli.tools.head]}", config("chain", "steps: [{agent: a, tool_overrides: [strands_cli.tools.grep, head]}]")))
	if got := spec.Check(s, spec.Env{Getenv: here}); got != nil {
		t.Errorf("%+v", got)
	}
	got := spec.Check(s, spec.Env{Getenv: here, Tools: []string{"grep"}})
	if len(got) != 1 || got[0].Pointer != "/tools/python/1" {
		t.Errorf("%+v", got)
	}
}

func TestLayers_freeTasksInTheOrderTheirDependenciesFinish(t *testing.T) {
	t.Parallel()
	s := load(t, yamlOf(config("workflow", `tasks: [
  {id: e, agent: a, deps: [c]}, {id: d, agent: a, deps: [b]}, {id: b, agent: a}, {id: c, agent: a}, {id: f, agent: a, deps: [b, e]}]`)))
	want := [][]int{{2, 3}, {1, 0}, {4}}
	if got := s.Pattern.Workflow.Layers(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
