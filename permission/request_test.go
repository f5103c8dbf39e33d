package permission_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

const (
	root = "/w"
	now  = int64(1_700_000_000_000)
)

// capable is a workspace in which everything is switched on.
var capable = permission.Workspace{ID: "ws", Root: root, Capabilities: map[string]bool{"shell": true, "delete": true}}

// call is a call of a known tool in a capable workspace.
func call(tool string, effects tools.Effects) permission.Request {
	return permission.Request{
		Tool: tool, Known: true, Effects: effects, Workspace: capable, Instance: "me", Now: now, AllowPersistence: true,
	}
}

func command(line string) permission.Request {
	q := call("run_command", tools.Shell)
	q.Command = line
	return q
}

// on is a call about a path that is no symbolic link.
func on(q permission.Request, path string) permission.Request {
	q.Path, q.ResolvedPath = path, path
	return q
}

func in(mode string, q permission.Request) permission.Request {
	q.Mode = mode
	return q
}

func under(q permission.Request, rules ...session.Rule) permission.Request {
	q.Rules = rules
	return q
}

func rule(effect string, s session.Scope) session.Rule {
	return session.Rule{Source: session.SourceSession, Effect: effect, Scope: s}
}

func prefix(p string) session.Scope { return session.Scope{Kind: "command_prefix", Prefix: p} }
func tool(name string) session.Scope {
	return session.Scope{Kind: "tool", ToolName: name}
}
func below(p string) session.Scope { return session.Scope{Kind: "path", Path: p} }

func granted(q permission.Request, key string, g session.Grant) permission.Request {
	q.Grants = q.Grants.With(key, g)
	return q
}

var fresh = session.Grant{GrantedAt: now - 1, ExpiresAt: now + 1, Instance: "me"}

func denied(q permission.Request, d session.Denial) permission.Request {
	q.Denials = q.Denials.With(evaluate(q).Scope.Fingerprint(), d)
	return q
}

func evaluate(q permission.Request) permission.Result { return permission.Engine{}.Evaluate(q) }

// expect checks decision and reason of each case.
func expect(t *testing.T, cases []decision) {
	t.Helper()
	for _, c := range cases {
		got := evaluate(c.q)
		if got.Decision != c.want || c.reason != "" && got.Reason.Type != c.reason {
			t.Errorf("%s: %s because of %s (%s), want %s because of %s", c.name, got.Decision, got.Reason.Type, got.Reason.Summary, c.want, c.reason)
		}
		if got.Reason.Summary == "" || got.Scope.Kind == "" || got.ScopePreview == "" || got.SuggestedActions == nil {
			t.Errorf("%s: the result lacks something: %+v", c.name, got)
		}
		if (got.Reason.Type == "rule") != (got.MatchedRule != nil) {
			t.Errorf("%s: reason %s with the rule %v", c.name, got.Reason.Type, got.MatchedRule)
		}
		if (len(got.SuggestedActions) > 0) != (got.Decision == "ask") {
			t.Errorf("%s: %s suggests %v", c.name, got.Decision, got.SuggestedActions)
		}
	}
}

type decision struct {
	name   string
	q      permission.Request
	want   string
	reason string // "": any
}
