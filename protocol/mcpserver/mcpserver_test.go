package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/protocol/mcpserver"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// connect returns a client of a server with a model that answers by a script.
func connect(t *testing.T, replies ...scripted.Reply) *sdk.ClientSession {
	t.Helper()
	tools, err := tool.NewSet(tool.AskPerson())
	if err != nil {
		t.Fatal(err)
	}
	rt, err := holdfast.New(holdfast.Config{
		Store: inmem.New(inmem.Config{}), Models: llm.Map{"m": scripted.New(replies...)}, DefaultModel: "m", Tools: tools,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := mcpserver.New(mcpserver.Config{Sessions: rt, Version: "test", Agent: func(_ context.Context, name string) (session.Definition, error) {
		if name != "" {
			return session.Definition{}, &session.NotFoundError{What: "agent", ID: name}
		}
		return session.Definition{Name: "a"}, nil
	}})
	theirs, ours := sdk.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), serving.Wait(), rt.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// turn is what a tool returns about a session.
type turn struct {
	Session string `json:"session"`
	Status  string `json:"status"`
	Reply   string `json:"reply"`
	Pending []struct {
		ID     string `json:"id"`
		Prompt string `json:"prompt"`
	} `json:"pending"`
}

// call calls a tool. Failed is what it says where it failed.
func call(t *testing.T, c *sdk.ClientSession, name string, arguments map[string]string) (got turn, failed string) {
	t.Helper()
	result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return got, err.Error()
	}
	if result.IsError {
		text, ok := result.Content[0].(*sdk.TextContent)
		if !ok {
			t.Fatalf("the error of %s has no text", name)
		}
		return got, text.Text
	}
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	return got, ""
}

func TestTools_aSessionAsksAndContinues(t *testing.T) {
	t.Parallel()
	ask := session.ToolCall{ID: "c1", Name: tool.AskPersonName, Arguments: json.RawMessage(`{"question":"Which?"}`)}
	c := connect(t, scripted.Reply{ToolCalls: []session.ToolCall{ask}}, scripted.Reply{Text: "done"})
	sent, failed := call(t, c, "session_send", map[string]string{"text": "hi", "name": "mine"})
	if failed != "" || sent.Status != "waiting" || len(sent.Pending) != 1 || !strings.Contains(sent.Pending[0].Prompt, "Which?") {
		t.Fatalf("the session is %+v %s", sent, failed)
	}
	answered, failed := call(t, c, "pending_respond", map[string]string{"session": "mine", "pending": sent.Pending[0].ID, "action": "answer", "text": "this"})
	if failed != "" || answered.Status != "completed" || answered.Reply != "done" || len(answered.Pending) != 0 {
		t.Errorf("after the answer it is %+v %s", answered, failed)
	}
	if read, failed := call(t, c, "session_read", map[string]string{"session": sent.Session}); failed != "" || read.Reply != "done" {
		t.Errorf("read: %+v %s", read, failed)
	}
}

func TestTools_refuseByName(t *testing.T) {
	t.Parallel()
	c := connect(t)
	for _, bad := range []struct {
		tool string
		in   map[string]string
		says string
	}{
		{"session_send", map[string]string{"text": "hi", "session": "none"}, "not found"},
		{"session_send", map[string]string{"text": "hi", "session": "none", "agent": "a"}, "new sessions"},
		{"session_send", map[string]string{"text": "hi", "agent": "none"}, "none"},
		{"session_send", map[string]string{"text": "hi", "temperature": "1"}, "temperature"},
		{"session_read", map[string]string{}, "session"},
		{"session_search", map[string]string{"kind": "nothing"}, "nothing"},
		{"task_start", map[string]string{"prompt": "x"}, "task_start"}, // only a server works on tasks
	} {
		if _, failed := call(t, c, bad.tool, bad.in); !strings.Contains(failed, bad.says) {
			t.Errorf("%s %v: %q does not say %q", bad.tool, bad.in, failed, bad.says)
		}
	}
}
