package letta_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/letta"
	"github.com/holdfast-dev/holdfast/session"
)

const messages = `[
 {"id":"message-0","role":"system","content":[{"type":"text","text":"You are"}]},
 {"id":"message-1","role":"user","content":[{"type":"text","text":"{\"type\":\"login\",\"last_login\":\"never\",\"message\":\"in\"}"}]},
 {"id":"message-2","role":"user","content":[{"type":"text","text":"{\"type\":\"user_message\",\"message\":\"hello\",\"time\":\"now\"}"}],"created_at":"2026-01-02T10:00:00+00:00"},
 {"id":"message-3","role":"assistant","content":[{"type":"reasoning","reasoning":"greet"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"send_message","arguments":"{\"message\":\"hi\"}"}}]},
 {"id":"message-4","role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"{\"status\":\"OK\",\"message\":\"sent\"}"}]},
 {"id":"message-5","role":"assistant","content":[{"type":"text","text":"done"}]}]`

const file = `{"agents":[{"id":"agent-0","name":"Sam the helper","system":"You are Sam","block_ids":["block-0"],"created_at":"2026-01-01T09:00:00",
 "llm_config":{"model":"gpt-x","model_endpoint_type":"openai"},"tool_exec_environment_variables":[{"key":"K","value":"v"}],"messages":` + messages + `}],
 "blocks":[{"id":"block-0","label":"human","value":"likes tea"},{"id":"block-1","label":"other","value":"x"}],"tools":[{"name":"send_message"}],"groups":[],"files":[],"sources":[]}`

func TestRead(t *testing.T) {
	t.Parallel()
	old := `{"agent_type":"memgpt_agent","id":"agent-0","name":"Sam the helper","system":"You are Sam","llm_config":{"model":"gpt-x","model_endpoint_type":"openai"},
	 "core_memory":[{"label":"human","value":"likes tea"}],"tools":[{"name":"send_message"}],"messages":` + messages + `}`
	for _, text := range []string{file, old} {
		if !letta.Detect([]byte(text)) {
			t.Fatal("it is not detected")
		}
		all, err := letta.Read([]byte(text))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		s, report, err := all[0].Session(foreign.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, m := range s.Messages() {
			said = append(said, string(m.Role)+" "+m.Content.Text())
		}
		if want := []string{"user hello", "assistant ", "tool ", "assistant done"}; !slices.Equal(said, want) {
			t.Fatalf("said %q", said)
		}
		if r := s.Message(2).ToolResult; r.Content != "sent" || r.ToolName != "send_message" || s.Message(1).Content[0].Text != "greet" {
			t.Errorf("%+v", r)
		}
		if string(s.Variables()["blocks/human"].Value) != `"likes tea"` || len(s.Variables()) != 1 {
			t.Errorf("memory %+v", s.Variables())
		}
		def := s.Definition()
		if def.Name != "sam-the-helper" || def.Model != "openai/gpt-x" || def.SystemPrompt != "You are Sam" || s.ID() != "agent-0" {
			t.Errorf("%+v", def)
		}
		for _, path := range []string{"tools", "messages of the type login", "messages of the role system"} {
			if !slices.Contains(report.Dropped, path) {
				t.Errorf("the report does not have %q: %q", path, report.Dropped)
			}
		}
	}
}

func TestRead_refuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"agents":[],"blocks":[]}`, strings.Replace(file, `"messages":[`, `"messages":[7,`, 1)} {
		if _, err := letta.Read([]byte(text)); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	}
	for _, text := range []string{"", "{}", `{"agents":[]}`, `{"format":"holdfast.session","messages":[]}`} {
		if letta.Detect([]byte(text)) {
			t.Errorf("%q is taken for a file of Letta", text)
		}
	}
}
