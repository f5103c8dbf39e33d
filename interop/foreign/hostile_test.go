package foreign_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// Calls with the same id, without an id and without a name: each call that is
// kept has its own id and its own result.
func TestConversation_callsThatAreNotTold(t *testing.T) {
	t.Parallel()
	call := func(id, name string) session.ToolCall {
		return session.ToolCall{ID: id, Name: name, Arguments: foreign.Arguments(nil)}
	}
	result := func(id, text string) session.Message {
		return session.Message{Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: id, Content: text}}
	}
	c := foreign.Conversation{Format: "test", ID: "calls", Messages: []session.Message{
		{Role: session.RoleUser, Content: session.Content{{Type: session.PartText, Text: "go"}, {Type: session.PartImage, Data: "not base64!", MediaType: "image/png"}}},
		result("t", "before its call"),
		{Role: session.RoleAssistant, ToolCalls: []session.ToolCall{call("t", "a"), call("t", "b"), call("", "c"), call("x", "")}},
		result("t", "one"), result("t", "two"), result("", "three"),
		{Role: session.RoleAssistant, ToolCalls: []session.ToolCall{call("t", "d")}},
		result("t", "four"),
	}}
	s, report, err := c.Session(foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	ids := map[string]bool{}
	for _, m := range s.Messages() {
		if r := m.ToolResult; r != nil {
			said = append(said, r.ToolName+" "+r.Content)
			ids[r.CallID] = true
		}
	}
	if want := []string{"a one", "b two", "c three", "d four"}; !slices.Equal(said, want) || len(ids) != len(want) {
		t.Errorf("results %q with %d ids", said, len(ids))
	}
	if err := session.ValidTranscript(s.Messages()); err != nil {
		t.Error(err)
	}
	want := []string{"left out attachments that are not base64: 1", "left out calls without the name of a tool: 1", "left out results without a call: 1"}
	if !slices.Equal(report.Notes, want) {
		t.Errorf("notes %q", report.Notes)
	}
}

// What a file may have any number of does not make a report of any length.
func TestReport_isShort(t *testing.T) {
	t.Parallel()
	var r foreign.Report
	for i := range 5000 {
		r.Drop(fmt.Sprintf("lines of the type %d%s", i, strings.Repeat("x", 1000)))
		r.Tools = append(r.Tools, fmt.Sprintf("tool%d", i))
	}
	r = r.Tidy()
	if len(r.Dropped) != 101 || len(r.Tools) != 101 || r.Tools[100] != "… and 4900 more" || len(r.Dropped[0]) > 310 {
		t.Errorf("%d paths, %d tools, the last %q", len(r.Dropped), len(r.Tools), r.Tools[len(r.Tools)-1])
	}
}
