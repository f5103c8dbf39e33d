package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func ruleOf(effect, name string) session.Rule {
	return session.Rule{Source: session.SourceSession, Effect: effect, Scope: session.Scope{Kind: session.ScopeTool, ToolName: name}}
}

func TestRestricted_keepsWhatLimitsAndNamesTheRest(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"plan": "plan", "default": "default", "accept_edits": "default", "dangerous_only": "default", "dont_ask": "default", "bypass_permissions": "default",
	} {
		p := session.Permissions{Mode: mode, SessionRules: []session.Rule{ruleOf("allow", "a"), ruleOf("deny", "d"), ruleOf("ask", "q")}}
		p = p.WithGrant("tool:g", session.Grant{})
		kept, dropped := p.Restricted()
		if kept.Mode != want || len(kept.SessionRules) != 2 || kept.SessionRules[0].Effect != "deny" || kept.SessionRules[1].Effect != "ask" || kept.TemporaryGrants.Len() != 0 {
			t.Errorf("%s: kept %+v", mode, kept)
		}
		named := strings.Join(dropped, "\n")
		if !strings.Contains(named, "allow:") || !strings.Contains(named, "tool:g") || strings.Contains(named, mode) != (mode != want) {
			t.Errorf("%s: dropped %q", mode, dropped)
		}
		if p.TemporaryGrants.Len() != 1 || len(p.SessionRules) != 3 {
			t.Errorf("%s: the value itself was changed", mode)
		}
	}
}

func TestImported_bringsNoPermissionAndNoApproval(t *testing.T) {
	t.Parallel()
	s := apply(t, called(t, "a", "b"),
		session.PermissionModeChanged(session.PermissionBypass), session.PermissionRuleAdded(ruleOf("allow", "shell")), session.PermissionRuleAdded(ruleOf("deny", "http_get")),
		asks("a"), asks("b"), session.CallResponded{Response: session.Response{PendingID: "p-b", Action: session.RespondApprove}}, session.ExecutionWaiting{})
	in, err := session.Seal(s, noon).Imported("copy", "agent", "", session.SessionImported{Format: "holdfast.session"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	p := in.Permissions()
	if p.Mode != session.PermissionDefault || len(p.SessionRules) != 1 || p.SessionRules[0].Effect != "deny" {
		t.Errorf("permissions %+v", p)
	}
	if len(in.PendingCalls()) != 0 || in.Info().Pending != 0 || in.Waiting() || !in.Running() {
		t.Errorf("pending %+v, waiting %v, running %v", in.PendingCalls(), in.Waiting(), in.Running())
	}
	log := session.Unsaved(in)
	told := log[len(log)-1].Change.(session.SessionImported).Dropped
	for _, want := range []string{"bypass_permissions", "allow:", "approval of"} {
		if !slices.ContainsFunc(told, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("the import does not name %q: %q", want, told)
		}
	}
	if len(s.PendingCalls()) != 2 || s.Permissions().Mode != session.PermissionBypass {
		t.Error("the document's session was changed")
	}
}
