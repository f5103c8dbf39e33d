package foreign_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// What other programs keep is often no valid transcript: results are missing or
// far away, and ids are taken.
func TestConversation_becomesAValidTranscript(t *testing.T) {
	t.Parallel()
	call := func(id string) session.ToolCall {
		return session.ToolCall{ID: id, Name: "clock", Arguments: foreign.Arguments([]byte("now"))}
	}
	result := func(id, text string) session.Message {
		return session.Message{Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: id, Content: text}}
	}
	c := foreign.Conversation{Format: "test", ID: "no id/at all", Name: "  two\nlines ", Agent: "Über Agent", Messages: []session.Message{
		{Role: session.RoleAssistant, Content: session.Text("early")},
		{ID: "a", Role: session.RoleUser, Content: session.Text("go")},
		{ID: "a", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{call("1"), call("2")}},
		{Role: session.RoleAssistant, Content: session.Text("between")},
		result("2", "two"), result("9", "nobody asked"),
		{Role: session.RoleAssistant},
	}}
	s, report, err := c.Session(foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	ids := map[string]bool{}
	for _, m := range s.Messages() {
		ids[m.ID] = true
		text := m.Content.Text()
		if m.ToolResult != nil {
			text = m.ToolResult.CallID + ":" + m.ToolResult.Content
		}
		said = append(said, text)
	}
	if want := []string{"go", "", "1:the call has no result in the file it was imported from", "2:two", "between"}; !slices.Equal(said, want) || len(ids) != len(want) {
		t.Errorf("said %q with %d ids", said, len(ids))
	}
	if s.Info().Name != "two lines" || s.Definition().Name != "ber-agent" || len(report.Renamed) != 1 || report.Renamed[0].From != "no id/at all" {
		t.Errorf("%+v %+v", s.Info(), report)
	}
	if notes := strings.Join(report.Notes, "; "); !strings.Contains(notes, "without a call: 1") || !strings.Contains(notes, "first message of a user: 1") {
		t.Error(notes)
	}
	c.Messages = c.Messages[:1]
	if _, _, err := c.Session(foreign.Options{}); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("without a message of a user: %v", err)
	}
	if _, _, err := c.Session(foreign.Options{NewID: "/"}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an id that is none: %v", err)
	}
}
