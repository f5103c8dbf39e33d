package task_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

func TestResolvedPath_followsLinksAndKnowsWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside := filepath.Join(base, "work"), filepath.Join(base, "outside")
	for _, dir := range []string{root, outside, filepath.Join(root, "sub")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": outside, "in": "sub", "nowhere": filepath.Join(base, "later"), "round": "round"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for p, want := range map[string]string{
		"a.txt":         root + "/a.txt",
		"new/deep/a":    root + "/new/deep/a",
		"sub/../a":      root + "/a",
		"in/a":          root + "/sub/a",
		"out/a":         outside + "/a",
		"out/../a":      base + "/a", // up from where the link leads
		"../x":          base + "/x",
		"nowhere":       "",
		"nowhere/a":     "",
		"round":         "",
		"/etc/hostname": "/etc/hostname",
	} {
		if p == "out/../a" {
			if err := os.WriteFile(base+"/a", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := permission.ResolvePath(root, p); got != want {
			t.Errorf("%s leads to %q, want %q", p, got, want)
		}
	}
	if got := permission.ResolvePath("", "a"); got != "" {
		t.Errorf("a path without a workspace leads to %q", got)
	}
}

// tried is whether a call runs, is asked about or is denied.
func tried(t *testing.T, s task.Spec, tool tool.Tool, arguments string, change ...func(*task.Config)) string {
	t.Helper()
	h := newHouse(t, script("call:c1:act:"+arguments, "done"), append(change, with(tool))...)
	s.ID, s.Prompt, s.PlanMode = "t1", "do it", task.PlanNone
	h.start(s)
	switch {
	case h.row().Status == "blocked":
		return "ask"
	case h.count("tool_blocked") > 0:
		return "deny"
	}
	return "allow"
}

func TestGuard_decidesByWhatACallDoes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	on := map[string]bool{"shell": true, "delete": true}
	http := tool.Network | tool.Export
	for name, c := range map[string]struct {
		mode      string
		effects   tool.Effects
		arguments string
		able      map[string]bool
		want      string
	}{
		"reading inside":           {"default", tool.Read, `{"path":"a"}`, on, "allow"},
		"reading outside":          {"default", tool.Read, `{"path":"/etc/passwd"}`, on, "ask"},
		"reading upwards":          {"default", tool.Read, `{"path":"x/../../a"}`, on, "ask"},
		"editing inside":           {"accept_edits", tool.Write, `{"path":"a"}`, on, "allow"},
		"editing through a link":   {"accept_edits", tool.Write, `{"path":"out/a"}`, on, "ask"},
		"editing outside":          {"accept_edits", tool.Write, `{"path":"/tmp/a"}`, on, "ask"},
		"moving out":               {"accept_edits", tool.Write, `{"from":"a","to":"../b"}`, on, "ask"},
		"several paths":            {"accept_edits", tool.Write, `{"paths":["a","/b"]}`, on, "ask"},
		"editing the rules":        {"accept_edits", tool.Write, `{"path":".holdfast/permissions.json"}`, on, "ask"},
		"reading the rules":        {"default", tool.Read, `{"path":".holdfast/permissions.json"}`, on, "allow"},
		"editing in plan mode":     {"plan", tool.Write, `{"path":"a"}`, on, "deny"},
		"unknown in plan mode":     {"plan", 0, `{}`, on, "deny"},
		"unknown":                  {"allow_known", 0, `{}`, on, "ask"},
		"unknown, never asked":     {"dont_ask", 0, `{}`, on, "deny"},
		"editing git":              {"accept_edits", tool.Write, `{"path":".git/config"}`, on, "ask"},
		"editing git, never asked": {"dont_ask", tool.Write, `{"path":".git/config"}`, on, "deny"},
		"a safe command":           {"dangerous_only", tool.Shell, `{"command":"ls -l"}`, on, "allow"},
		"a command behind another": {"dangerous_only", tool.Shell, `{"command":"ls; make"}`, on, "ask"},
		"a command on two lines":   {"dangerous_only", tool.Shell, "{\"command\":\"ls\\nmake\"}", on, "ask"},
		"no shell here":            {"bypass_permissions", tool.Shell, `{"command":"ls"}`, nil, "deny"},
		"no deleting here":         {"bypass_permissions", tool.Delete, `{"path":"a"}`, nil, "deny"},
		"a guardrail":              {"bypass_permissions", tool.Shell, `{"command":"rm -rf /"}`, on, "deny"},
		"asking the web":           {"default", http, `{"url":"https://example.com/x"}`, on, "allow"},
		"a head request":           {"default", http, `{"url":"https://example.com/x","method":"HEAD","headers":{}}`, on, "allow"},
		"sending to the web":       {"bypass_permissions", http, `{"url":"https://example.com/x","method":"POST"}`, on, "ask"},
		"a body":                   {"bypass_permissions", http, `{"url":"https://example.com/x","body":"x"}`, on, "ask"},
		"headers":                  {"bypass_permissions", http, `{"url":"https://example.com/x","headers":{"a":"b"}}`, on, "ask"},
	} {
		s := task.Spec{PermissionMode: c.mode, Workspace: task.Workspace{ID: "w", Root: root, Capabilities: c.able}}
		tool := declared{&counter{name: "act"}, c.effects}
		if got := tried(t, s, tool, c.arguments); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Whoever plans, analyzes or chats changes nothing, even where nothing is asked.
func TestGuard_modesThatOnlyLookOfferAndRunNothingElse(t *testing.T) {
	t.Parallel()
	for _, effects := range []tool.Effects{tool.Read, tool.Network, tool.Read | tool.Write, tool.Delete, tool.Shell, tool.MCP, tool.External, 0} {
		for _, mode := range task.ExecutionModes() {
			c := &counter{name: "act"}
			s := task.Spec{PermissionMode: "bypass_permissions", ExecutionMode: mode, Workspace: task.Workspace{ID: "w", Root: t.TempDir(), Capabilities: map[string]bool{"shell": true, "delete": true}}}
			tried(t, s, declared{c, effects}, `{"command":"ls"}`)
			looks := mode == "plan" || mode == "analyze" || mode == "chat"
			if want := !looks || effects.Within(tool.Read|tool.Network); (c.ran() == 1) != want {
				t.Errorf("%v in %s ran %d times", effects.Names(), mode, c.ran())
			}
		}
	}
}

func TestGuard_denialsByTheModeTurnIntoAQuestion(t *testing.T) {
	t.Parallel()
	c, write := writer()
	h := newHouse(t, script("call:c1:write:{}", "call:c2:write:{}", "call:c3:write:{}", "call:c4:write:{}", "done"), with(write))
	s := job()
	s.PermissionMode = "plan"
	h.start(s)
	h.stands("blocked", "awaiting_approval", "")
	if h.count("tool_blocked") != 3 || c.ran() != 0 {
		t.Errorf("%d were blocked", h.count("tool_blocked"))
	}
	counted, _ := h.permissions().DenialTracking.Get("tool:write")
	if counted.ConsecutiveDenials != 3 || counted.TotalDenials != 3 {
		t.Errorf("counted are %+v", counted)
	}
	a := h.open()
	if !strings.Contains(string(a.Details), "denial_fallback") {
		t.Errorf("the details are %s", a.Details)
	}
	if reply, err := h.respond(a.ID, "allow_once", task.RespondOptions{}); err != nil || reply.Status != "completed" || c.ran() != 1 {
		t.Errorf("%+v, %v", reply, err)
	}
	counted, _ = h.permissions().DenialTracking.Get("tool:write")
	if counted.ConsecutiveDenials != 0 || counted.TotalDenials != 3 || counted.PromptedAtTotal != 3 {
		t.Errorf("counted are %+v", counted)
	}
}

func TestGuard_hardAndRuleDenialsAreNotCounted(t *testing.T) {
	t.Parallel()
	c, write := writer()
	h := newHouse(t, script("call:c1:write:{}", "call:c2:write:{}", "call:c3:write:{}", "call:c4:write:{}", "done"), with(write))
	if _, err := h.x.Create(context.Background(), job()); err != nil {
		t.Fatal(err)
	}
	if err := h.x.AddRule(context.Background(), "t1", session.Rule{Effect: "deny", Scope: session.Scope{Kind: "tool", ToolName: "write"}}); err != nil {
		t.Fatal(err)
	}
	result, err := h.x.Resume(context.Background(), "t1")
	if err != nil || result.Row.Status != "completed" || c.ran() != 0 || h.count("tool_blocked") != 4 {
		t.Errorf("%+v, %v", result, err)
	}
	if n := h.permissions().DenialTracking.Len(); n != 0 {
		t.Errorf("%d scopes are counted", n)
	}
}

func TestGrant_countsInItsExecutorUntilItsEnd(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	st := inmem.New(inmem.Config{})
	clock := func(c *task.Config) { c.Clock = func() time.Time { return now } }
	c, write := writer()
	h := houseOn(t, st, script("call:c1:write:{}", "call:c2:write:{}", "done", "call:c3:write:{}", "done"), clock, with(write))
	if _, err := h.x.Create(context.Background(), job()); err != nil {
		t.Fatal(err)
	}
	if err := h.x.Grant(context.Background(), "t1", "tool:write", task.GrantOptions{}); err != nil {
		t.Fatal(err)
	}
	if result, err := h.x.Resume(context.Background(), "t1"); err != nil || result.Row.Status != "completed" || c.ran() != 2 {
		t.Fatalf("%+v, %v; the tool ran %d times", result, err, c.ran())
	}
	now = now.Add(session.GrantDefault) // its end is exclusive
	if _, err := h.x.QueueFollowUp(context.Background(), "t1", session.FollowUp{Message: "again"}); err != nil {
		t.Fatal(err)
	}
	if result, err := h.x.Resume(context.Background(), "t1"); err != nil || result.Row.Status != "blocked" || c.ran() != 2 {
		t.Errorf("%+v, %v; the tool ran %d times", result, err, c.ran())
	}
	if h.count("permission_grants_dropped") != 1 || h.permissions().TemporaryGrants.Len() != 0 {
		t.Errorf("grants are %+v", h.permissions().TemporaryGrants)
	}
}

func TestGrant_ofAnotherExecutorIsDropped(t *testing.T) {
	t.Parallel()
	for _, survives := range []bool{false, true} {
		st := inmem.New(inmem.Config{})
		_, write := writer()
		one := houseOn(t, st, script(), with(write))
		if _, err := one.x.Create(context.Background(), job()); err != nil {
			t.Fatal(err)
		}
		if err := one.x.Grant(context.Background(), "t1", "tool:write", task.GrantOptions{SurvivesRestart: survives}); err != nil {
			t.Fatal(err)
		}
		c, write := writer()
		other := houseOn(t, st, script("call:c1:write:{}", "done"), with(write))
		result, err := other.x.Resume(context.Background(), "t1")
		if err != nil {
			t.Fatal(err)
		}
		if (c.ran() == 1) != survives || (result.Row.Status == "completed") != survives || (other.count("permission_grants_dropped") == 0) != survives {
			t.Errorf("survives %v: %+v, the tool ran %d times", survives, result.Row, c.ran())
		}
	}
}

func TestSettings_reachATaskAtWorkAndTheNewestModeWins(t *testing.T) {
	t.Parallel()
	st, g := inmem.New(inmem.Config{}), newGate()
	h := houseOn(t, st, g.answer)
	other := houseOn(t, st, g.answer)
	done := make(chan error, 1)
	go func() {
		_, err := h.x.Start(context.Background(), job())
		done <- err
	}()
	<-g.came
	ctx := context.Background()
	rule := session.Rule{Effect: "deny", Scope: session.Scope{Kind: "tool", ToolName: "x"}}
	for _, mode := range []string{"plan", "accept_edits"} {
		if err := other.x.SetMode(ctx, "t1", mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.x.AddRule(ctx, "t1", rule); err != nil {
		t.Fatal(err)
	}
	close(g.pass)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	state, p := h.state(), h.permissions()
	if p.Mode != "accept_edits" || len(p.SessionRules) != 1 || h.row().PermissionMode != "accept_edits" || state.Settings.ModeSeq == 0 {
		t.Errorf("permissions are %+v, settings %+v", p, state.Settings)
	}
	if err := other.x.SetMode(ctx, "t1", "everything"); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a mode there is not: %v", err)
	}
}

func TestRules_ofASessionAreAddedOnceAndBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script())
	ctx := context.Background()
	if _, err := h.x.Create(ctx, job()); err != nil {
		t.Fatal(err)
	}
	rule := session.Rule{Source: "profile", Effect: "allow", Scope: session.Scope{Kind: "tool", ToolName: "x"}}
	for range 2 {
		if err := h.x.AddRule(ctx, "t1", rule); err != nil {
			t.Fatal(err)
		}
	}
	if rules := h.permissions().SessionRules; len(rules) != 1 || rules[0].Source != "session" || h.count("permission_rule_added") != 1 {
		t.Errorf("rules are %+v", rules)
	}
	bad := rule
	bad.Scope.ToolName = "*"
	if err := h.x.AddRule(ctx, "t1", bad); !errors.Is(err, session.ErrRule) {
		t.Errorf("a rule about everything: %v", err)
	}
	if err := h.x.RemoveRule(ctx, "t1", rule); err != nil || len(h.permissions().SessionRules) != 0 {
		t.Errorf("removed: %v, %+v", err, h.permissions().SessionRules)
	}
}
