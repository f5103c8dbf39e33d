package permission_test

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

func TestRequest_pathsThatProgramsMustNotReach(t *testing.T) {
	t.Parallel()
	q := permission.Request{
		Rules: []session.Rule{
			rule("deny", below("/w/session")), rule("allow", below("/w/a")), rule("ask", below("/w/b")),
			rule("deny", session.Scope{Kind: "path", Path: "/w/unwritten", ToolName: "file_write"}),
			rule("deny", session.Scope{Kind: "path", Path: "/w/unread", ToolName: "file_read"}),
			rule("deny", tool("shell")), rule("deny", below("relative")),
		},
		Policy: permission.Compile([]session.Rule{rule("deny", below("/w/stored")), rule("allow", below("/w/c"))}, nil),
	}
	if got, want := q.DeniedPaths(), []string{"/w/stored", "/w/session", "/w/unread"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (permission.Request{}).DeniedPaths(); len(got) != 0 {
		t.Errorf("without rules: %q", got)
	}
}

// Without a sandbox only a person, a rule, a grant or bypass_permissions lets a
// command run; nothing else becomes stricter.
func TestEngine_withoutASandboxCommandsAreAskedAbout(t *testing.T) {
	t.Parallel()
	held, err := permission.New(permission.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loose, err := permission.New(permission.Config{Unsandboxed: true})
	if err != nil {
		t.Fatal(err)
	}
	line := call("shell", tools.Shell)
	line.Command = "cat a.txt"
	line.Workspace.Capabilities = map[string]bool{"shell": true}
	line.Mode = session.PermissionDangerousOnly
	if got := held.Evaluate(line).Decision; got != session.EffectAllow {
		t.Errorf("in a sandbox: %s", got)
	}
	if got := loose.Evaluate(line).Decision; got != session.EffectAsk {
		t.Errorf("without one: %s", got)
	}
	for _, mode := range []string{session.PermissionPlan, session.PermissionDefault, session.PermissionAcceptEdits, session.PermissionDontAsk} {
		line.Mode = mode
		if got := loose.Evaluate(line).Decision; got == session.EffectAllow {
			t.Errorf("%s: %s", mode, got)
		}
	}
	line.Mode = session.PermissionBypass
	if got := loose.Evaluate(line).Decision; got != session.EffectAllow {
		t.Errorf("bypass: %s", got)
	}
	line.Mode, line.Rules = session.PermissionDangerousOnly, []session.Rule{rule("allow", prefix("cat"))}
	if got := loose.Evaluate(line).Decision; got != session.EffectAllow {
		t.Errorf("with a rule: %s", got)
	}
	read := on(call("file_read", tools.Read), "/w/a")
	read.Mode = session.PermissionDangerousOnly
	if got, want := loose.Evaluate(read).Decision, held.Evaluate(read).Decision; got != want {
		t.Errorf("a file: %s, want %s", got, want)
	}
}
