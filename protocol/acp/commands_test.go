package acp_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
)

func TestCommands_areRunInPlaceOfAPrompt(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, scripted.New(scripted.Reply{Err: errors.New("no quota")}, scripted.Reply{Text: "better"}, scripted.Reply{Text: "a path"}))
	e := connect(t, rt)
	id := e.newSession()
	e.until("the commands", func(m message) bool { return m.Params.Update.Kind == "available_commands_update" })
	e.prompt(id, "hi")
	if m := e.answer("7"); m.Error == nil {
		t.Fatalf("the model did not fail: %s", m.Result)
	}
	for _, c := range []struct{ typed, want string }{
		{"/retry", "better"}, {"/model", "The default model answers."}, {"/model m", "m answers."}, {"/cost", "tokens in, "}, {"/prune 3", "the last 3 messages"},
		{"/usr/bin is a folder", "a path"},
	} {
		e.text.Reset()
		e.prompt(id, c.typed)
		if m := e.answer("7"); string(m.Result) != `{"stopReason":"end_turn"}` || !strings.Contains(e.text.String(), c.want) {
			t.Errorf("%s: %s %+v, said %q", c.typed, m.Result, m.Error, e.text.String())
		}
	}
	for typed, want := range map[string]string{"/model none": "none", "/prune all": "/prune"} {
		e.prompt(id, typed)
		if m := e.answer("7"); m.Error == nil || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%s: %s %+v", typed, m.Result, m.Error)
		}
	}
	e.close()
	s, err := rt.Get(t.Context(), id, holdfast.Whole())
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, m := range s.Messages() {
		if m.Role == session.RoleUser {
			sent = append(sent, m.Content.Text())
		}
	}
	if got := strings.Join(sent, "; "); got != "hi; /usr/bin is a folder" || s.Info().Name != "hi" {
		t.Errorf("the model was sent %q in a session named %q", got, s.Info().Name)
	}
}

// A mode that somebody else sets is shown.
func TestModes_changedElsewhere(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, scripted.New())
	e := connect(t, rt)
	id := e.newSession()
	if _, err := rt.Execute(t.Context(), id, holdfast.ChangePermissionMode{Mode: session.PermissionPlan}); err != nil {
		t.Fatal(err)
	}
	m := e.until("the mode", func(m message) bool { return m.Params.Update.Kind == "current_mode_update" })
	if m.Params.Update.ModeID != session.PermissionPlan {
		t.Errorf("the mode is %q", m.Params.Update.ModeID)
	}
	e.send(`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"` + id + `","cwd":"/","mcpServers":[]}}`)
	var loaded struct {
		Modes struct {
			CurrentModeID string `json:"currentModeId"`
		} `json:"modes"`
	}
	if err := json.Unmarshal(e.answer("1").Result, &loaded); err != nil || loaded.Modes.CurrentModeID != session.PermissionPlan {
		t.Errorf("loaded with %+v, %v", loaded, err)
	}
	e.close()
}
