package tools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/tools"
)

func TestSpecVerify_goldens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir, Providers: []string{"openai"}})
	const info = `"spec_info":{"name":"try","version":1,"pattern_type":"chain","provider":"openai","agent_count":1}}`
	works(t, b, "spec_verify", map[string]any{"spec_content": plainSpec},
		`{"schema_valid":true,"pydantic_valid":true,"capability_supported":true,"errors":[],"issues":[],`+info)
	works(t, b, "spec_verify", map[string]any{"spec_content": plainSpec, "check_capability": false},
		`{"schema_valid":true,"pydantic_valid":true,"capability_supported":null,"errors":[],"issues":[],`+info)
	works(t, b, "spec_verify", map[string]any{"spec_content": `{"version":1,"name":"try","runtime":{"provider":"openai"},
		"agents":{"a":{"prompt":"p"}},"pattern":{"type":"chain","config":{"steps":[{"agent":"a"}]}}}`},
		`{"schema_valid":true,"pydantic_valid":true,"capability_supported":true,"errors":[],"issues":[],`+info)
	works(t, b, "spec_verify", map[string]any{"spec_content": strings.Replace(plainSpec, "agent: a,", "agent: b,", 1)},
		`{"schema_valid":true,"pydantic_valid":true,"capability_supported":false,"errors":[],"issues":[`+
			`{"pointer":"/pattern/config/steps/0/agent","reason":"there is no agent \"b\"","remediation":"add it under agents, or use one of a"}],`+info)
}

func TestSpecVerify_whatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBox(t, tools.Config{WorkDir: dir, Providers: []string{"openai"}})
	for content, want := range map[string]struct {
		schema bool
		phase  string
		says   string
	}{
		"a: [":                      {false, "parse", ""},
		"- just\n- a list":          {false, "parse", "not a map"},
		plainSpec + "surprise: 1\n": {false, "schema", "surprise"},
		strings.Replace(plainSpec, "Go.", "'{{ x'", 1):                        {true, "template", "/pattern/config/steps/0/input"},
		strings.Replace(plainSpec, "{prompt: Help.}", "{$ref: ../x.yaml}", 1): {false, "schema", "outside the directories"},
	} {
		got := use(t, b, "spec_verify", map[string]any{"spec_content": content})
		var v struct {
			Schema   bool `json:"schema_valid"`
			Pydantic bool `json:"pydantic_valid"`
			Errors   []struct{ Phase, Type, Message string }
			Info     any `json:"spec_info"`
		}
		if err := json.Unmarshal([]byte(got.Content), &v); err != nil {
			t.Fatalf("%q: %v", got.Content, err)
		}
		if !got.IsError || v.Schema != want.schema || v.Pydantic || v.Info != nil || len(v.Errors) == 0 || v.Errors[0].Phase != want.phase || !strings.Contains(v.Errors[0].Message, want.says) {
			t.Errorf("%q: got %s", content, got.Content)
		}
	}
	fails(t, b, "spec_verify", map[string]any{"spec_content": ""}, "is empty")
	put(t, dir+"/agent.yaml", "prompt: Help.\n")
	if got := use(t, b, "spec_verify", map[string]any{"spec_content": strings.Replace(plainSpec, "{prompt: Help.}", "{$ref: agent.yaml}", 1)}); got.IsError {
		t.Errorf("got %s", got.Content)
	}
}
