package claudecode_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/claudecode"
	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// transcript has a branch that was given up (u2), an answer of two lines whose
// calls have their results in branches of their own, a subagent, and a last line
// that was cut off.
const transcript = `{"type":"summary","summary":"Fix the build","leafUuid":"a4"}
{"type":"file-history-snapshot","messageId":"x","snapshot":{}}
{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:00.000Z","isSidechain":false,"cwd":"/w","message":{"role":"user","content":"fix the build"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:01.000Z","message":{"id":"msg_1","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"look first","signature":"c2ln"}],"usage":{"input_tokens":5,"output_tokens":7}}}
{"type":"assistant","uuid":"a2","parentUuid":"a1","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:02.000Z","message":{"id":"msg_1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make","api_key":"sk-secret-0123456789"}}]}}
{"type":"assistant","uuid":"a3","parentUuid":"a2","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:03.000Z","message":{"id":"msg_1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"t2","name":"Read","input":{"path":"go.mod"}}]}}
{"type":"user","uuid":"r1","parentUuid":"a2","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:04.000Z","toolUseResult":{"stdout":"x"},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"failed with sk-secret-0123456789","is_error":true}]}}
{"type":"user","uuid":"r2","parentUuid":"a3","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:05.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"module x"}]}]}}
{"type":"assistant","uuid":"s1","parentUuid":"a3","isSidechain":true,"sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:05.000Z","message":{"id":"msg_s","role":"assistant","content":[{"type":"text","text":"subagent words"}]}}
{"type":"user","uuid":"u2","parentUuid":"r2","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:06.000Z","message":{"role":"user","content":"given up"}}
{"type":"assistant","uuid":"a4","parentUuid":"r2","sessionId":"0f0e0d0c-0001-4000-8000-000000000001","timestamp":"2026-01-02T10:00:07.000Z","message":{"id":"msg_2","role":"assistant","model":"claude-x","content":[{"type":"text","text":"fixed"}]}}
{"type":"user","uuid":"cut of`

func TestRead(t *testing.T) {
	t.Parallel()
	if !claudecode.Detect([]byte(transcript)) {
		t.Fatal("it is not detected")
	}
	c, err := claudecode.Read([]byte(transcript))
	if err != nil {
		t.Fatal(err)
	}
	s, report, err := c.Session(foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range s.Messages() {
		text := string(m.Role) + " " + m.Content.Text()
		for _, call := range m.ToolCalls {
			text += " " + call.Name
		}
		if r := m.ToolResult; r != nil {
			text += r.ToolName + ": " + r.Content
		}
		said = append(said, text)
	}
	want := []string{"user fix the build", "assistant  Bash Read", "tool Bash: failed with [secret:api_key]", "tool Read: module x", "assistant fixed"}
	if !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	info := s.Info()
	if info.ID != "0f0e0d0c-0001-4000-8000-000000000001" || info.Name != "Fix the build" || info.Origin != session.OriginImport || s.Definition().Model != "anthropic/claude-x" {
		t.Errorf("header %+v, model %s", info, s.Definition().Model)
	}
	if at := s.Message(4).CreatedAt; at.Format("15:04:05") != "10:00:07" {
		t.Errorf("the last message is of %s", at)
	}
	if p := s.Message(1).Content[0]; p.Type != session.PartReasoning || p.Text != "look first" || p.Signature != "c2ln" {
		t.Errorf("reasoning %+v", p)
	}
	notes := strings.Join(slices.Concat(report.Notes, report.Dropped, report.Models, report.Tools), "; ")
	for _, part := range []string{"subagents: 1", "given up: 1", "toolUseResult", "message.usage", "file-history-snapshot", "anthropic/claude-x", "Bash"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the report does not say %q: %s", part, notes)
		}
	}
	data, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"sk-secret", "subagent words", "given up"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("the session has %q", secret)
		}
	}
}

// A compaction begins a new line of messages, whose first names the one before it.
func TestRead_whatWasCompactedIsThereToo(t *testing.T) {
	t.Parallel()
	c, err := claudecode.Read([]byte(`{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-02T10:00:00.000Z","message":{"role":"user","content":"before"}}
{"type":"system","subtype":"compact_boundary","uuid":"b1","parentUuid":null,"logicalParentUuid":"u1","sessionId":"s","timestamp":"2026-01-02T10:00:01.000Z"}
{"type":"user","uuid":"u2","parentUuid":"b1","sessionId":"s","timestamp":"2026-01-02T10:00:02.000Z","message":{"role":"user","content":"after"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range c.Messages {
		said = append(said, m.Content.Text())
	}
	if !slices.Equal(said, []string{"before", "after"}) {
		t.Errorf("said %q", said)
	}
}

func TestRead_refuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a line that is no JSON": strings.Replace(transcript, `{"type":"file`, `{"type":file`, 1),
		"no message":             `{"type":"summary","summary":"x"}`,
		"another role":           strings.Replace(transcript, `"role":"user","content":"fix the build"`, `"role":"king","content":"fix the build"`, 1),
	} {
		if _, err := claudecode.Read([]byte(text)); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "{}", `{"format":"holdfast.session"}`, "hello", `[1]`} {
		if claudecode.Detect([]byte(text)) {
			t.Errorf("%q is taken for a transcript", text)
		}
	}
}
