package openaiagents_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/openaiagents"
	"github.com/holdfast-dev/holdfast/session"
)

// newFile makes a file as the SDK does, still open and with its last writes in
// the log beside it.
func newFile(t *testing.T, items ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sessions.db")
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		"PRAGMA journal_mode = WAL",
		"CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
		"CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
		"INSERT INTO agent_sessions VALUES ('trip', '2026-01-02 10:00:00', '2026-01-02 11:00:00'), ('empty', '2026-01-02 10:00:00', '2026-01-02 10:00:00'), ('other', '2026-01-03 10:00:00', '2026-01-03 10:00:00')",
		`INSERT INTO agent_messages (session_id, message_data) VALUES ('other', '{"role":"user","content":"hi"}')`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, item := range items {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES ('trip', ?, '2026-01-02 10:30:00')", item); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func read(t *testing.T, file string) ([]foreign.Conversation, error) {
	t.Helper()
	d, err := foreign.OpenSQLite(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if is, err := openaiagents.Detect(t.Context(), d); err != nil || !is {
		t.Fatalf("it is not detected: %v", err)
	}
	return openaiagents.Read(t.Context(), d)
}

func TestRead(t *testing.T) {
	t.Parallel()
	all, err := read(t, newFile(t,
		`{"role":"user","content":[{"type":"input_text","text":"weather?"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}`,
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"ask the tool"}]}`,
		`{"type":"function_call","call_id":"c1","name":"get_weather","arguments":"{\"city\":\"Bern\"}"}`,
		`{"type":"function_call","call_id":"c2","name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}`,
		`{"type":"function_call_output","call_id":"c1","output":"sunny"}`,
		`{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"rain"}]}`,
		`{"type":"web_search_call","id":"ws_1","status":"completed","token":"abcdefghijkl0123"}`,
		`{"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"say it"}]}`,
		`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"sun, then abcdefghijkl0123","annotations":[]}]}`,
	))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d conversations: %v", len(all), err)
	}
	s, report, err := all[0].Session(foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var roles []session.Role
	for _, m := range s.Messages() {
		roles = append(roles, m.Role)
	}
	if want := []session.Role{"user", "assistant", "tool", "tool", "assistant"}; !slices.Equal(roles, want) {
		t.Fatalf("roles %q", roles)
	}
	first, answer := s.Message(0), s.Message(1)
	if first.Content[1].Data != "aGk=" || first.Content[1].MediaType != "image/png" || first.CreatedAt.Format("15:04") != "10:30" {
		t.Errorf("%+v", first)
	}
	if len(answer.ToolCalls) != 2 || answer.Content[0].Text != "ask the tool" || s.Message(3).ToolResult.Content != "rain" {
		t.Errorf("%+v", answer)
	}
	if last := s.Message(4).Content.Text(); last != "sun, then [secret:token]" {
		t.Errorf("the secret: %q", last)
	}
	if s.ID() != "trip" || s.Info().CreatedAt.Format("15:04") != "10:00" || !slices.Contains(report.Dropped, "items of the type web_search_call") {
		t.Errorf("%+v %+v", s.Info(), report)
	}
}

func TestRead_refusesAnItemThatIsNoJSON(t *testing.T) {
	t.Parallel()
	if _, err := read(t, newFile(t, "{")); !errors.Is(err, session.ErrCorrupt) || !strings.Contains(err.Error(), "item 1") {
		t.Errorf("%v", err)
	}
}
