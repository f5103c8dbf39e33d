package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func TestRule_normalForms(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scope session.Scope
		print string
	}{
		"tool":            {session.Scope{Kind: "tool", ToolName: "write_file"}, "tool:write_file"},
		"path":            {session.Scope{Kind: "path", Path: "/w/a/../b/"}, "path:*:/w/b"},
		"path of a tool":  {session.Scope{Kind: "path", Path: "/w", ToolName: "write_file"}, "path:write_file:/w"},
		"path on a drive": {session.Scope{Kind: "path", Path: "C:/w/"}, "path:*:C:/w"},
		"command":         {session.Scope{Kind: "command_prefix", Prefix: "  git \t status "}, "command_prefix:git status"},
		"quoted command":  {session.Scope{Kind: "command_prefix", Prefix: ` echo "a  b"`}, `command_prefix:echo "a  b"`},
		"server":          {session.Scope{Kind: "mcp_server", ServerName: " GitHub "}, "mcp_server:github"},
		"domain":          {session.Scope{Kind: "domain", Domain: "Example.ORG."}, "domain:*:example.org"},
		"domain, tool":    {session.Scope{Kind: "domain", Domain: "a.org", ToolName: "fetch"}, "domain:tool=fetch:a.org"},
		"domain, prefix":  {session.Scope{Kind: "domain", Domain: "a.org", ToolPrefix: "browser_"}, "domain:prefix=browser_:a.org"},
		"domain, both":    {session.Scope{Kind: "domain", Domain: "::1", ToolName: "t", ToolPrefix: "p"}, "domain:tool=t,prefix=p:::1"},
	} {
		r, err := session.Rule{Effect: "deny", Scope: tt.scope}.Normal()
		if err != nil || r.Fingerprint() != "deny:"+tt.print {
			t.Errorf("%s: %q, %v; want deny:%s", name, r.Fingerprint(), err, tt.print)
		}
		if again, err := r.Normal(); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%s: is not settled: %v, %v", name, again, err)
		}
	}
}

func TestRule_refusesWhatStandsForEverything(t *testing.T) {
	t.Parallel()
	tool := session.Scope{Kind: "tool", ToolName: "t"}
	for _, tt := range []struct {
		field string
		rule  session.Rule
	}{
		{"effect", session.Rule{Effect: "permit", Scope: tool}},
		{"effect", session.Rule{Scope: tool}},
		{"createdAt", session.Rule{Effect: "allow", Scope: tool, CreatedAt: -1}},
		{"metadata", session.Rule{Effect: "allow", Scope: tool, Metadata: session.Values{"f": json.RawMessage("{")}}},
		{"scope.kind", session.Rule{Effect: "allow"}},
		{"scope.kind", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "Tool", ToolName: "t"}}},
		{"scope.toolName", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "tool"}}},
		{"scope.toolName", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "tool", ToolName: "*"}}},
		{"scope.prefix", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "command_prefix", Prefix: " \t"}}},
		{"scope.prefix", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "command_prefix", Prefix: " * "}}},
		{"scope.path", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "path"}}},
		{"scope.path", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "path", Path: "*"}}},
		{"scope.path", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "path", Path: "src"}}},
		{"scope.toolName", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "path", Path: "/w", ToolName: "*"}}},
		{"scope.toolPrefix", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "path", Path: "/w", ToolPrefix: "x"}}},
		{"scope.serverName", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "mcp_server", ServerName: " "}}},
		{"scope.domain", session.Rule{Effect: "allow", Scope: session.Scope{Kind: "domain", Domain: "*"}}},
		{"scope.domain", session.Rule{Effect: "deny", Scope: session.Scope{Kind: "domain", Domain: "*.example.org"}}},
		{"scope.domain", session.Rule{Effect: "deny", Scope: session.Scope{Kind: "domain", Domain: "example.org:80"}}},
		{"scope.toolName", session.Rule{Effect: "deny", Scope: session.Scope{Kind: "command_prefix", Prefix: "ls", ToolName: "sh"}}},
	} {
		_, err := tt.rule.Normal()
		var e *session.RuleError
		if !errors.As(err, &e) || e.Field != tt.field {
			t.Errorf("%+v gave %v, not an error about %s", tt.rule, err, tt.field)
		}
	}
}

func TestPermissions_jsonIsExact(t *testing.T) {
	t.Parallel()
	p, err := session.NormalPermissions(session.Permissions{})
	if err != nil {
		t.Fatal(err)
	}
	const empty = `{"mode":"default","sessionRules":[],"temporaryGrants":[],"denialTracking":[]}`
	if got := asJSON(t, p); got != empty {
		t.Errorf("an empty bucket is %s", got)
	}
	rule := session.Rule{
		ID: "r1", Source: "profile", Effect: "allow", CreatedAt: 7, Metadata: session.Values{"n": json.RawMessage("1")},
		Scope: session.Scope{Kind: "domain", ToolName: "a", ToolPrefix: "b", Domain: "c.org"},
	}
	p, added, err := p.WithRule(rule)
	if err != nil || !added {
		t.Fatal(added, err)
	}
	p.TemporaryGrants = p.TemporaryGrants.With("k", session.Grant{GrantedAt: 1, ExpiresAt: 2, Instance: "i", SurvivesRestart: true}).With("l", session.Grant{GrantedAt: 3})
	p.DenialTracking = p.DenialTracking.With("f", session.Denial{ConsecutiveDenials: 1, TotalDenials: 2, PromptedAtTotal: 3}).With("g", session.Denial{})
	if p, err = session.NormalPermissions(p); err != nil {
		t.Fatal(err)
	}
	const want = `{"mode":"default","sessionRules":[{"id":"r1","source":"session","effect":"allow","scope":{"kind":"domain","toolName":"a","toolPrefix":"b","domain":"c.org"},"createdAt":7,"metadata":{"n":1}}],` +
		`"temporaryGrants":[["k",{"grantedAt":1,"expiresAt":2,"instance":"i","survivesRestart":true}],["l",{"grantedAt":3}]],` +
		`"denialTracking":[["f",{"consecutiveDenials":1,"totalDenials":2,"promptedAtTotal":3}],["g",{"consecutiveDenials":0,"totalDenials":0}]]}`
	if got := asJSON(t, p); got != want {
		t.Errorf("encoded as\n%s, want\n%s", got, want)
	}
	var back session.Permissions
	if err := json.Unmarshal([]byte(want), &back); err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("came back as %+v, %v", back, err)
	}
}

func TestPermissions_refuseUnknownModesAndNegativeCounts(t *testing.T) {
	t.Parallel()
	if _, err := session.NormalPermissions(session.Permissions{Mode: "Plan"}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("mode Plan gave %v", err)
	}
	var denials session.Pairs[session.Denial]
	if _, err := session.NormalPermissions(session.Permissions{DenialTracking: denials.With("f", session.Denial{TotalDenials: -1})}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a negative count gave %v", err)
	}
	if _, err := session.NormalPermissions(session.Permissions{SessionRules: []session.Rule{{Effect: "allow"}}}); !errors.Is(err, session.ErrRule) {
		t.Errorf("a bad rule gave %v", err)
	}
}

func TestPermissions_cloneSharesNothing(t *testing.T) {
	t.Parallel()
	rule := session.Rule{Effect: "allow", Scope: session.Scope{Kind: "tool", ToolName: "t"}, Metadata: session.Values{"why": json.RawMessage(`"x"`)}}
	p := session.Permissions{SessionRules: []session.Rule{rule}}
	before := asJSON(t, p)
	c := p.Clone()
	c.SessionRules[0].Effect = "deny"
	c.SessionRules[0].Metadata["why"][1] = 'y'
	if after := asJSON(t, p); after != before {
		t.Errorf("changing a copy changed\n%s into\n%s", before, after)
	}
}

func TestSessionRules_oneOfAKindAndAtMost500(t *testing.T) {
	t.Parallel()
	var p session.Permissions
	rule := func(i int) session.Rule {
		return session.Rule{Source: "profile", Effect: "allow", Scope: session.Scope{Kind: "tool", ToolName: fmt.Sprint("t", i)}}
	}
	for i := range session.MaxSessionRules {
		next, added, err := p.WithRule(rule(i))
		if err != nil || !added || next.SessionRules[i].Source != "session" {
			t.Fatal(i, added, err)
		}
		p = next
	}
	if same, added, err := p.WithRule(rule(3)); err != nil || added || len(same.SessionRules) != 500 {
		t.Errorf("a rule that is there: added %v, %v", added, err)
	}
	full, added, err := p.WithRule(rule(500))
	if !errors.Is(err, session.ErrRule) || added || !reflect.DeepEqual(full, p) {
		t.Errorf("the 501st: added %v, %v", added, err)
	}
	less, ok := p.WithoutRule("allow:tool:t3")
	if _, again := less.WithoutRule("allow:tool:t3"); !ok || again || len(less.SessionRules) != 499 || len(p.SessionRules) != 500 {
		t.Errorf("taken away: %v, twice: %v, %d left", ok, again, len(less.SessionRules))
	}
	other := rule(3)
	other.Effect = "deny"
	if _, added, err := less.WithRule(other); err != nil || !added {
		t.Errorf("another effect: %v, %v", added, err)
	}
}

func TestGrant_lives(t *testing.T) {
	t.Parallel()
	const minute, given = 60_000, int64(1_000_000)
	for name, tt := range map[string]struct {
		grant session.Grant
		at    int64
		want  bool
	}{
		"before its end":         {session.Grant{ExpiresAt: given + 10, Instance: "me"}, given + 9, true},
		"its end is not in it":   {session.Grant{ExpiresAt: given + 10, Instance: "me"}, given + 10, false},
		"15 minutes by default":  {session.Grant{Instance: "me"}, given + 15*minute - 1, true},
		"and no longer":          {session.Grant{Instance: "me"}, given + 15*minute, false},
		"never more than a day":  {session.Grant{ExpiresAt: given + 1<<50, Instance: "me"}, given + 24*60*minute, false},
		"up to a day":            {session.Grant{ExpiresAt: given + 1<<50, Instance: "me"}, given + 24*60*minute - 1, true},
		"of another executor":    {session.Grant{ExpiresAt: given + 10, Instance: "you"}, given, false},
		"of nobody":              {session.Grant{ExpiresAt: given + 10}, given, false},
		"that survives":          {session.Grant{ExpiresAt: given + 10, Instance: "you", SurvivesRestart: true}, given, true},
		"that survives, expired": {session.Grant{ExpiresAt: given + 10, Instance: "you", SurvivesRestart: true}, given + 10, false},
	} {
		tt.grant.GrantedAt = given
		if got := tt.grant.Live(tt.at, "me"); got != tt.want {
			t.Errorf("%s: live is %v", name, got)
		}
	}
	if (session.Grant{GrantedAt: given, ExpiresAt: given + 10}).Live(given, "") {
		t.Error("nobody's grant counts for nobody")
	}
}

func TestGrants_deadOnesAreDroppedByName(t *testing.T) {
	t.Parallel()
	var p session.Permissions
	p = p.WithGrant("mine", session.Grant{GrantedAt: 1, Instance: "me"}).
		WithGrant("yours", session.Grant{GrantedAt: 1, Instance: "you"}).
		WithGrant("kept", session.Grant{GrantedAt: 1, Instance: "you", SurvivesRestart: true})
	if g, _ := p.TemporaryGrants.Get("mine"); g.ExpiresAt != 1+15*60_000 {
		t.Errorf("written without its end: %+v", g)
	}
	next, dropped := p.WithoutDeadGrants(2, "me")
	if !reflect.DeepEqual(dropped, []string{"yours"}) || next.TemporaryGrants.Len() != 2 || p.TemporaryGrants.Len() != 3 {
		t.Errorf("dropped %v, %d left", dropped, next.TemporaryGrants.Len())
	}
}

func TestDenials_areCountedPerScope(t *testing.T) {
	t.Parallel()
	var p session.Permissions
	want := func(step string, d session.Denial) {
		t.Helper()
		if got, _ := p.DenialTracking.Get("f"); got != d {
			t.Errorf("%s: %+v, want %+v", step, got, d)
		}
	}
	p = p.WithDenial("f").WithDenial("other").WithDenial("f")
	want("denied twice", session.Denial{ConsecutiveDenials: 2, TotalDenials: 2})
	p = p.WithExecuted("f")
	want("executed", session.Denial{TotalDenials: 2})
	p = p.WithDenial("f").WithAnswer("f")
	want("answered", session.Denial{TotalDenials: 3, PromptedAtTotal: 3})
	if p = p.WithExecuted("new").WithAnswer("new"); p.DenialTracking.Len() != 2 {
		t.Errorf("%d scopes, though two were denied", p.DenialTracking.Len())
	}
	for i := range session.MaxDenials {
		p = p.WithDenial(fmt.Sprint("many ", i))
	}
	if _, ok := p.DenialTracking.Get("f"); ok || p.DenialTracking.Len() != session.MaxDenials {
		t.Errorf("%d scopes are kept, the first among them: %v", p.DenialTracking.Len(), ok)
	}
}
