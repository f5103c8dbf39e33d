package holdfast_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/tool"
)

func TestPermissions_theRuntimesModeHoldsAfterAnAnswer(t *testing.T) {
	var runs sync.Map
	permissions := shellPermissions(t)
	h := open(t, func(c *holdfast.Config) {
		onSQLite(t, c)
		script(c, callsShell("c1", "make"), scripted.Reply{Text: "one"}, callsShell("c2", "make"), scripted.Reply{Text: "two"})
		c.Tools, c.Permissions = shell(t, &runs), permissions
	})
	s := h.create()
	p := h.do(s.ID(), holdfast.SendMessage{Text: "build"}).PendingCalls()[0]
	if err := h.Respond(t.Context(), s.ID(), session.Response{PendingID: p.ID, Action: session.RespondDeny}); err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.ContinueExecution{})
	permissions.Mode = session.PermissionBypass
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "again"}); got.Reply() != "two" || ran(&runs, "make") != 1 {
		t.Errorf("reply %q, ran %d times: the session set no mode", got.Reply(), ran(&runs, "make"))
	}
}

// ruleList is a RuleStore with fixed rules.
type ruleList []session.Rule

func (l ruleList) Policy(context.Context, permission.Workspace) (*permission.Policy, error) {
	return permission.Compile(l, nil), nil
}

func (ruleList) Add(context.Context, permission.Workspace, session.Rule) (bool, error) {
	return false, session.ErrUnsupported
}

func TestPermissions_deniedPathsAreToldToTheTool(t *testing.T) {
	permissions := shellPermissions(t)
	permissions.Mode = session.PermissionBypass
	permissions.Rules = ruleList{
		{Source: session.SourceProfile, Effect: session.EffectDeny, Scope: session.Scope{Kind: session.ScopePath, Path: "/w/secret"}},
		{Source: session.SourceProfile, Effect: session.EffectAllow, Scope: session.Scope{Kind: session.ScopePath, Path: "/w/open"}},
	}
	var denied []string
	run, err := tool.Func(tool.Spec{Name: "shell", Description: "runs a command", Effects: tool.Shell}, func(ctx context.Context, _ struct {
		Command string `json:"command"`
	}) (string, error) {
		permit, _ := tool.PermitOf(ctx)
		denied = permit.Denied
		return "ran", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(c *holdfast.Config) {
		onSQLite(t, c)
		script(c, callsShell("c1", "make"), scripted.Reply{Text: "done"})
		if c.Tools, err = tool.NewSet(run); err != nil {
			t.Fatal(err)
		}
		c.Permissions = permissions
	})
	if got := h.do(h.create().ID(), holdfast.SendMessage{Text: "build"}); got.Reply() != "done" || !slices.Equal(denied, []string{"/w/secret"}) {
		t.Errorf("reply %q, denied %v", got.Reply(), denied)
	}
}

// Whoever has read a secret is asked before an address could carry it out, also
// after a restart. Before that, nobody is asked.
func TestPermissions_whatASessionHasReadSurvivesARestart(t *testing.T) {
	get := func(id, url string) scripted.Reply {
		raw, err := json.Marshal(map[string]string{"url": url})
		if err != nil {
			t.Fatal(err)
		}
		return scripted.Reply{ToolCalls: []session.ToolCall{{ID: id, Name: "http_get", Arguments: raw}}}
	}
	read := func(id, path string) scripted.Reply {
		return scripted.Reply{ToolCalls: []session.ToolCall{{ID: id, Name: "file_read", Arguments: json.RawMessage(`{"path":"` + path + `"}`)}}}
	}
	file := filepath.Join(t.TempDir(), "s.db")
	permissions := shellPermissions(t)
	start := func() *house {
		return open(t, func(c *holdfast.Config) {
			st, err := sqlite.Open(t.Context(), file, sqlite.Config{})
			if err != nil {
				t.Fatal(err)
			}
			c.Store, c.Permissions = st, permissions
			script(c, read("c1", "main.go"), scripted.Reply{Text: "plain"}, read("c2", ".env"), scripted.Reply{Text: "secret"},
				get("c3", "https://example.org/page"), scripted.Reply{Text: "page"}, get("c4", "https://example.org/?d=KEY"))
			c.Tools = readingTools(t)
		})
	}
	first := start()
	s := first.create()
	if got := first.do(s.ID(), holdfast.SendMessage{Text: "read"}); got.Reply() != "plain" || got.Permissions().Tainted {
		t.Fatalf("reply %q, tainted %v", got.Reply(), got.Permissions().Tainted)
	}
	if got := first.do(s.ID(), holdfast.SendMessage{Text: "read the secret"}); got.Reply() != "secret" || !got.Permissions().Tainted {
		t.Fatalf("reply %q, tainted %v", got.Reply(), got.Permissions().Tainted)
	}
	second := start()
	if got := second.do(s.ID(), holdfast.SendMessage{Text: "look"}); got.Reply() != "page" {
		t.Errorf("an address without data: %q, %d are pending", got.Reply(), len(got.PendingCalls()))
	}
	pending := second.do(s.ID(), holdfast.SendMessage{Text: "send"}).PendingCalls()
	if len(pending) != 1 || !strings.Contains(string(pending[0].Details), "data_leaves") {
		t.Errorf("%d are pending", len(pending))
	}
}

// readingTools are tools that read a file and a page, as permissions see them.
func readingTools(t *testing.T) tool.Set {
	t.Helper()
	type arguments struct {
		Path string `json:"path,omitempty"`
		URL  string `json:"url,omitempty"`
	}
	answer := func(context.Context, arguments) (string, error) { return "text", nil }
	file, err := tool.Func(tool.Spec{Name: "file_read", Description: "reads", Effects: tool.Read, Nature: tool.ReadOnly}, answer)
	if err != nil {
		t.Fatal(err)
	}
	page, err := tool.Func(tool.Spec{Name: "http_get", Description: "gets", Effects: tool.Network, Nature: tool.ReadOnly}, answer)
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(file, page)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
