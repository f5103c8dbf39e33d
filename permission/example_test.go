package permission_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

func ExampleEngine_Evaluate() {
	var engine permission.Engine
	q := permission.Request{
		Tool: "run_command", Known: true, Effects: tools.Shell,
		Workspace: permission.Workspace{ID: "w1", Root: "/home/ann/project", Capabilities: map[string]bool{"shell": true}},
		Mode:      session.PermissionDefault,
		Rules: []session.Rule{{
			Source: session.SourceSession, Effect: session.EffectAllow,
			Scope: session.Scope{Kind: session.ScopeCommandPrefix, Prefix: "git status"},
		}},
		AllowPersistence: true,
	}
	for _, line := range []string{"git status -s", "git status; make", "git status > out", "sudo rm -rf /"} {
		q.Command = line
		r := engine.Evaluate(q)
		fmt.Printf("%s: %s, %s\n", line, r.Decision, r.Reason.Type)
	}
	// Output:
	// git status -s: allow, rule
	// git status; make: ask, mode
	// git status > out: ask, mode
	// sudo rm -rf /: deny, guardrail
}
