package spec_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// folder writes files, by their paths, and returns where.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad_agentInAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"flows/s.yaml": yamlOf(`agents:
  a: {$ref: ../lib/bare.yaml, model_id: mine, inference: {max_tokens: 5}}
  b: {ref: ../lib/listed.yml}
  c: {$ref: ../lib/named.json, tools: []}
  d: {$ref: ../lib/whole.yaml}`),
		"lib/bare.yaml":  "prompt: Bare\nmodel_id: theirs\nprovider: p\ntools: [grep]\ninference: {temperature: 1}\ninput_schema: in/x.json\noutput_schema: {type: object}\n",
		"lib/listed.yml": "agents:\n  whoever: {prompt: Listed}\n",
		"lib/whole.yaml": "version: 1\nname: other\nruntime: {provider: p}\nagents: {whoever: {prompt: Whole}}\npattern: {type: chain, config: {steps: [{agent: whoever, input: x}]}}\n",
		"lib/named.json": `{"whoever": {"prompt": "Named", "tools": ["head"], "input_schema": "../y.json"}}`,
	})
	s, err := spec.Loader{}.Load(filepath.Join(dir, "flows", "s.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	five := 5
	want := spec.Map[spec.Agent]{
		{Name: "a", Value: spec.Agent{
			Prompt: "Bare", ModelID: "mine", Provider: "p", Tools: []string{"grep"}, Inference: &spec.Inference{MaxTokens: &five},
			InputSchema: &spec.Schema{Path: "../lib/in/x.json"}, OutputSchema: &spec.Schema{Object: spec.Map[any]{{Name: "type", Value: "object"}}},
		}},
		{Name: "b", Value: spec.Agent{Prompt: "Listed"}},
		{Name: "c", Value: spec.Agent{Prompt: "Named", Tools: []string{}, InputSchema: &spec.Schema{Path: "../y.json"}}},
		{Name: "d", Value: spec.Agent{Prompt: "Whole"}},
	}
	if !reflect.DeepEqual(s.Agents, want) {
		t.Errorf("got  %s\nwant %s", jsonOf(t, s.Agents), jsonOf(t, want))
	}
}

func TestLoad_refusesReferencesThatLeadNowhere(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"several.yaml": "a: {prompt: x}\nb: {prompt: y}\n",
		"two.yaml":     "agents: {a: {prompt: x}, b: {prompt: y}}\n",
		"none.yaml":    "agents: {}\n",
		"list.yaml":    "- a\n",
		"broken.yaml":  "a: [\n",
		"nested.yaml":  "$ref: other.yaml\n",
		"inner.yaml":   "agents: {a: {$ref: other.yaml}}\n",
		"self.yaml":    "a: {$ref: ./self.yaml}\n",
		"other.yaml":   "prompt: x\n",
		"bad.yaml":     "prompt: x\nfoo: 1\n",
		"twice.yaml":   "agents: {a: {prompt: x}}\nagents: {a: {prompt: y}}\n",
		"a.txt":        "prompt: x\n",
	}
	for name, c := range map[string]struct{ agent, pointer, reason string }{
		"missing":       {"$ref: gone.yaml", "/agents/a/$ref", `refers to "gone.yaml", which does not exist (line 4)`},
		"several":       {"$ref: several.yaml", "/agents/a/$ref", `refers to "several.yaml", which holds 2 agents, not one (line 4)`},
		"two":           {"ref: two.yaml", "/agents/a/ref", `refers to "two.yaml", which holds 2 agents, not one (line 4)`},
		"none":          {"$ref: none.yaml", "/agents/a/$ref", `refers to "none.yaml", which holds no agent (line 4)`},
		"list":          {"$ref: list.yaml", "/agents/a/$ref", `refers to "list.yaml", which is a list, not an agent (line 4)`},
		"broken":        {"$ref: broken.yaml", "/agents/a/$ref", `refers to "broken.yaml", which is not YAML: sequence end token ']' not found (line 1) (line 4)`},
		"nested":        {"$ref: nested.yaml", "/agents/a/$ref", `refers to "nested.yaml", which refers on to another file; an agent's file must hold the agent (line 4)`},
		"nested inside": {"$ref: inner.yaml", "/agents/a/$ref", `refers to "inner.yaml", which refers on to another file; an agent's file must hold the agent (line 4)`},
		"cycle":         {"$ref: self.yaml", "/agents/a/$ref", `refers to "self.yaml", which refers to itself; an agent's file must hold the agent (line 4)`},
		"the spec":      {"$ref: ./s.yaml", "/agents/a/$ref", "refers to this file itself (line 4)"},
		"extension":     {"$ref: a.txt", "/agents/a/$ref", `refers to "a.txt", which has the extension ".txt", not .yaml, .yml or .json (line 4)`},
		"not a path":    {"$ref: 5", "/agents/a/$ref", "is an integer, not a string; put it in quotes (line 4)"},
		"both":          {"$ref: other.yaml, ref: other.yaml", "/agents/a", "has both $ref and ref; keep one (line 4)"},
		"prompt beside": {"$ref: other.yaml, prompt: y", "/agents/a/prompt", "is an unknown key; known are $ref, inference, model_id, provider, ref, tools (line 4)"},
		"bad beside":    {"$ref: other.yaml, tools: 5", "/agents/a/tools", "is an integer, not a list (line 4)"},
		"twice inside":  {"$ref: twice.yaml", "/agents/a/agents", "is there twice (twice.yaml, line 2)"},
		"bad inside":    {"$ref: bad.yaml", "/agents/a/foo", "is an unknown key; known are inference, input_schema, model_id, output_schema, prompt, provider, tools (bad.yaml, line 2)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(files)
			files["s.yaml"] = yamlOf("agents: {a: {" + c.agent + "}}")
			dir := folder(t, files)
			_, err := spec.Loader{}.Load(filepath.Join(dir, "s.yaml"), nil)
			wrong := refused(t, err)
			if wrong.Pointer != c.pointer || wrong.Reason != c.reason || wrong.Also != nil {
				t.Errorf("got  %s: %s\nwant %s: %s", wrong.Pointer, wrong.Reason, c.pointer, c.reason)
			}
		})
	}
}

func TestParse_withoutFilesRefersToNone(t *testing.T) {
	t.Parallel()
	_, err := parse(yamlOf("agents: {a: {$ref: /etc/hostname.yaml}}"))
	want := `refers to "/etc/hostname.yaml", which cannot be read: files are out of reach here (line 4)`
	if wrong := refused(t, err); wrong.Reason != want {
		t.Errorf("%v", wrong)
	}
}
