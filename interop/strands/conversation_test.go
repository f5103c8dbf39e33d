package strands_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
)

func conversation(t testing.TB) strands.Conversation {
	t.Helper()
	c := strands.Conversation{
		Place:   strands.Place{Agent: "tea:expert"},
		Session: strands.AgentSession{SessionID: id + "_tea:expert", CreatedAt: at(1), UpdatedAt: at(2)},
		Agent:   strands.NewAgent(false, at(3)),
	}
	for n, text := range []string{"Grün?", "Grün 🍵", "Why?"} {
		m := message(t, n, []string{"user", "assistant"}[n%2], `{"text":`+quote(text)+`}`)
		m.Unit = "step/0"
		c.Messages = append(c.Messages, m)
	}
	c.Messages[2].Unit = "step/1"
	return c
}

func TestSaveConversation_golden(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	if err := d.SaveConversation(id, conversation(t), nil); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(d.AgentsDir(), "session_"+id+"_tea%3Aexpert")
	for name, want := range map[string]string{
		"session.json": `{
  "session_id": "5d0c7c1e-0000-4000-8000-00000000000a_tea:expert",
  "session_type": "AGENT",
  "created_at": "2025-11-09T10:00:00.000001+00:00",
  "updated_at": "2025-11-09T10:00:00.000002+00:00"
}`,
		"agents/agent_default/agent.json": `{
  "agent_id": "default",
  "state": {},
  "conversation_manager_state": {
    "__name__": "SlidingWindowConversationManager",
    "removed_message_count": 0
  },
  "_internal_state": {
    "interrupt_state": {
      "interrupts": {},
      "context": {},
      "activated": false
    }
  },
  "created_at": "2025-11-09T10:00:00.000003+00:00",
  "updated_at": "2025-11-09T10:00:00.000003+00:00"
}`,
		"agents/agent_default/messages/message_1.json": `{
  "message": {
    "role": "assistant",
    "content": [
      {
        "text": "Grün 🍵"
      }
    ]
  },
  "message_id": 1,
  "redact_message": null,
  "created_at": "2025-11-09T10:00:00.000002+00:00",
  "updated_at": "2025-11-09T10:00:00.000002+00:00",
  "holdfast": {
    "unit": "step/0"
  }
}`,
	} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if got := get(t, path); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Join(folder, "multi_agents")); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("multi_agents: %v (%v)", info, err)
	}
	got, err := d.Conversations(id, nil)
	if err != nil || !reflect.DeepEqual(got, []strands.Conversation{conversation(t)}) {
		t.Errorf("read back:\n%+v (%v)", got, err)
	}
}

func TestSaveConversation_addsMessages(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	whole := conversation(t)
	for _, m := range whole.Messages {
		part := whole
		part.Messages = []strands.Message{m}
		if err := d.SaveConversation(id, part, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.Conversations(id, nil)
	if err != nil || !reflect.DeepEqual(got, []strands.Conversation{whole}) {
		t.Errorf("read back:\n%+v (%v)", got, err)
	}
}

func TestNewAgent_withSummaries(t *testing.T) {
	t.Parallel()
	a := strands.NewAgent(true, at(0))
	summary := strands.Body{Role: "user", Content: objects(t, `{"text":"Before: tea."}`)}
	if err := a.SetRemoved(2, &summary); err != nil {
		t.Fatal(err)
	}
	const want = `{"summary_message":{"role":"user","content":[{"text":"Before: tea."}]},"__name__":"SummarizingConversationManager","removed_message_count":2}`
	if got := asJSON(t, a.Manager); got != want {
		t.Errorf("manager is\n%s, want\n%s", got, want)
	}
	n, got, err := a.Removed()
	if err != nil || n != 2 || !reflect.DeepEqual(got, &summary) {
		t.Errorf("removed are %d, %+v (%v)", n, got, err)
	}
	sliding := strands.NewAgent(false, at(0))
	if err := sliding.SetRemoved(2, &summary); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a sliding window takes a summary: %v", err)
	}
	if n, _, _ := sliding.Removed(); n != 0 {
		t.Errorf("the refused call moved the window to %d", n)
	}
}

// The layout that is documented holds the same as the one that is written.
func TestConversations_bothLayoutsReadEqual(t *testing.T) {
	t.Parallel()
	written, documented := sessionDir(t), sessionDir(t)
	want := conversation(t)
	want.Place.Agent = "expert"
	if err := written.SaveConversation(id, want, nil); err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(written.AgentsDir(), "session_"+id+"_expert", "agents", "agent_default")
	to := filepath.Join(documented.AgentsDir(), "expert")
	put(t, filepath.Join(to, "agent.json"), get(t, filepath.Join(from, "agent.json")))
	for _, name := range []string{"message_0.json", "message_1.json", "message_2.json"} {
		put(t, filepath.Join(to, "messages", name), get(t, filepath.Join(from, "messages", name)))
	}
	a, err := written.Conversations(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := documented.Conversations(id, nil)
	if err != nil || len(b) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	b[0].Session = a[0].Session // which the documented layout does not have
	if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(a[0], want) {
		t.Errorf("documented is\n%+v, written\n%+v", b, a)
	}
}

func TestConversations_tolerant(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	expert := filepath.Join(d.AgentsDir(), "expert")
	put(t, filepath.Join(expert, "agent.json"), `{"created_at": "2025-11-09T10:00:00Z", "newer": {"é": 1}}`)
	for name, text := range map[string]string{
		"message_10.json":     `{"message": {"role": "user", "content": [{"text": "ten"}]}}`,
		"message_9.json":      `{"message": {"role": "assistant", "content": []}, "created_at": "2025-11-09T10:00:00Z", "newer": []}`,
		"message_2.json.tmp":  `half`,
		".message_2.json.tmp": `half`,
		"notes.json":          `half`,
		"message_x.json":      `half`,
	} {
		put(t, filepath.Join(expert, "messages", name), text)
	}
	put(t, filepath.Join(d.AgentsDir(), "begun", "agents", "agent_default", "messages", "x"), "")
	put(t, filepath.Join(d.AgentsDir(), "empty", "session.json"), "{}")
	put(t, filepath.Join(d.AgentsDir(), "a file"), "")
	got, err := d.Conversations(id, nil)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	c := got[0]
	if c.Place.Agent != "expert" || !c.Agent.CreatedAt.Equal(at(0)) || c.Agent.Extra.Len() != 1 || len(c.Messages) != 2 {
		t.Errorf("conversation is %+v", c)
	}
	if c.Messages[0].Number != 9 || c.Messages[1].Number != 10 || c.Messages[0].Extra.Len() != 1 {
		t.Errorf("messages are %+v", c.Messages)
	}
	if list := strands.ToSession("", c.Messages); !list[1].CreatedAt.Equal(at(0)) {
		t.Errorf("a message without a time is of %v, want that of the one before", list[1].CreatedAt)
	}
	none, err := strands.Dir(t.TempDir()).Conversations(id, nil)
	if err != nil || none != nil {
		t.Errorf("no agents: %v (%v)", none, err)
	}
}

func TestConversations_corruptFilesAreNamed(t *testing.T) {
	t.Parallel()
	const fine = `{"message": {"role": "user", "content": []}}`
	for name, c := range map[string]struct{ file, text, reason string }{
		"no JSON":        {"expert/messages/message_0.json", "{", "not JSON"},
		"torn off":       {"expert/messages/message_0.json", "", "empty"},
		"no message":     {"expert/messages/message_0.json", "{}", "message is missing"},
		"unknown role":   {"expert/messages/message_0.json", `{"message": {"role": "tool", "content": []}}`, "message.role"},
		"no list":        {"expert/messages/message_0.json", `{"message": {"role": "user", "content": "x"}}`, "message.content"},
		"no block":       {"expert/messages/message_0.json", `{"message": {"role": "user", "content": ["x"]}}`, "message.content"},
		"bad redaction":  {"expert/messages/message_0.json", `{"message": {"role": "user", "content": []}, "redact_message": {}}`, "redact_message.role"},
		"bad time":       {"expert/messages/message_0.json", `{"message": {"role": "user", "content": []}, "created_at": "x"}`, "created_at"},
		"bad agent":      {"expert/agent.json", "[]", "not a JSON object"},
		"bad window":     {"expert/agent.json", `{"conversation_manager_state": {"removed_message_count": -1}}`, "removed_message_count"},
		"bad session":    {"other/session.json", `{"session_type": "MULTI"}`, "session_id"},
		"no agent":       {"lost/agents/agent_default/messages/message_0.json", fine, "missing"},
		"several agents": {"other/agents/agent_second/agent.json", "{}", "several agents"},
		"same number":    {"expert/messages/message_01.json", fine, "two messages of number 1"},
		"same agent":     {"%65xpert/agent.json", "{}", "same agent's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sessionDir(t)
			put(t, filepath.Join(d.AgentsDir(), "expert", "agent.json"), "{}")
			put(t, filepath.Join(d.AgentsDir(), "expert", "messages", "message_1.json"), fine)
			put(t, filepath.Join(d.AgentsDir(), "other", "agents", "agent_default", "agent.json"), "{}")
			path := filepath.Join(d.AgentsDir(), filepath.FromSlash(c.file))
			put(t, path, c.text)
			_, err := d.Conversations(id, nil)
			var corrupt *session.CorruptError
			if !errors.As(err, &corrupt) || corrupt.ID != id || !strings.HasPrefix(corrupt.Path, d.AgentsDir()) || !strings.Contains(corrupt.Reason, c.reason) {
				t.Errorf("error is %v, want one of %s about %q", err, c.file, c.reason)
			}
		})
	}
}
