package permission_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

func TestEvaluate_modes(t *testing.T) {
	t.Parallel()
	read := on(call("read_file", tools.Read), "/w/a")
	fetch := call("web_fetch", tools.Network)
	edit := on(call("write_file", tools.Read|tools.Write), "/w/a")
	unplaced := call("save_note", tools.Write)
	remove := on(call("delete_file", tools.Delete), "/w/a")
	safe, change, shell, opaque := command("git status -s"), command("mkdir out"), command("make install"), command("git status > out")
	guarded := on(edit, "/w/.git/config")
	export := call("http_request", tools.Export)
	external := call("post_message", tools.External|tools.Network)
	browser, system := call("browser_click", tools.Browser), call("press_key", tools.System)
	mcp := call("github_search", tools.Read|tools.MCP)
	served := call("github_search", tools.Read)
	served.Server = "github"
	silent := call("mystery", 0)
	stranger := call("mystery", tools.Read)
	stranger.Known = false
	outside := on(read, "/etc/passwd")

	calls := []struct {
		name string
		q    permission.Request
		want [7]string // in the order of modes below
	}{
		{"read", read, [7]string{"allow", "allow", "allow", "allow", "allow", "allow", "allow"}},
		{"fetch", fetch, [7]string{"allow", "allow", "allow", "allow", "allow", "allow", "allow"}},
		{"edit", edit, [7]string{"deny", "ask", "deny", "allow", "allow", "allow", "allow"}},
		{"edit nobody knows where", unplaced, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"delete", remove, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"safe command", safe, [7]string{"deny", "ask", "deny", "ask", "allow", "allow", "allow"}},
		{"command that writes", change, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"command not understood", shell, [7]string{"deny", "ask", "deny", "ask", "ask", "ask", "allow"}},
		{"opaque command", opaque, [7]string{"deny", "ask", "deny", "ask", "ask", "ask", "allow"}},
		{"edit of a protected place", guarded, [7]string{"deny", "ask", "deny", "ask", "ask", "ask", "allow"}},
		{"export", export, [7]string{"deny", "ask", "deny", "ask", "ask", "ask", "ask"}},
		{"external service", external, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"browser", browser, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"system", system, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"MCP by effect", mcp, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"MCP by server", served, [7]string{"deny", "ask", "deny", "ask", "ask", "allow", "allow"}},
		{"declares nothing", silent, [7]string{"deny", "ask", "deny", "ask", "ask", "ask", "allow"}},
		{"not registered", stranger, [7]string{"deny", "ask", "deny", "ask", "ask", "ask", "allow"}},
		{"read outside", outside, [7]string{"deny", "ask", "deny", "ask", "ask", "ask", "ask"}},
	}
	modes := []string{"plan", "default", "dont_ask", "accept_edits", "dangerous_only", "allow_known", "bypass_permissions"}
	for _, c := range calls {
		for i, mode := range modes {
			expect(t, []decision{{c.name + " in " + mode, in(mode, c.q), c.want[i], ""}})
		}
		expect(t, []decision{
			{c.name + " without a mode", in("", c.q), c.want[1], ""},
			{c.name + " in a mode there is not", in("yolo", c.q), c.want[1], ""},
		})
	}
}

func TestEvaluate_firstDecisionStands(t *testing.T) {
	t.Parallel()
	everything := []session.Rule{rule("allow", tool("run_command")), rule("allow", tool("get_location"))}
	unlimited := func(q permission.Request) permission.Request {
		q = granted(in("bypass_permissions", under(q, everything...)), permission.BundleKey, fresh)
		return granted(q, evaluate(q).Scope.Fingerprint(), fresh)
	}
	narrowed := unlimited(command("ls"))
	narrowed.Restrictions.Allowed = []string{"read_file"}
	forbidden := unlimited(command("ls"))
	forbidden.Restrictions.Denied = []string{"run_command"}
	nothing := unlimited(command("ls"))
	nothing.Restrictions.Allowed = []string{}
	restrictedHarm := narrowed
	restrictedHarm.Command = "rm -rf /"
	incapable := unlimited(command("ls"))
	incapable.Workspace.Capabilities = nil
	incapableHarm := incapable
	incapableHarm.Command = "rm -rf /"
	located := unlimited(call("get_location", tools.Location))
	typed := unlimited(call("get_location", tools.Read))
	typed.Type = "location_access"
	deniedByRule := granted(under(command("git push"), rule("deny", prefix("git push"))), "command_prefix:git push", fresh)
	askedByRule := granted(under(command("git push"), rule("ask", prefix("git push"))), "command_prefix:git push", fresh)

	expect(t, []decision{
		{"not among the task's tools", narrowed, "deny", "task_restriction"},
		{"among those it may not use", forbidden, "deny", "task_restriction"},
		{"it may use none", nothing, "deny", "task_restriction"},
		{"restriction before guardrail", restrictedHarm, "deny", "task_restriction"},
		{"guardrail before capability", incapableHarm, "deny", "guardrail"},
		{"guardrail before all a person can say", unlimited(command("rm -rf /")), "deny", "guardrail"},
		{"capability before rules and grants", incapable, "deny", "workspace_capability"},
		{"location is asked for", located, "ask", ""},
		{"location by type", typed, "ask", ""},
		{"location even where only reading is allowed", in("plan", located), "ask", ""},
		{"a rule that denies before a grant", deniedByRule, "deny", "rule"},
		{"a grant before a rule that asks", askedByRule, "allow", "bundle_grant"},
		{"a grant before the mode", granted(in("plan", command("git push")), "command_prefix:git push", fresh), "allow", "bundle_grant"},
		{"a rule before the mode", in("plan", under(command("git push"), rule("allow", prefix("git push")))), "allow", "rule"},
		{"a rule that asks before the mode", in("allow_known", under(command("git push"), rule("ask", prefix("git push")))), "ask", "rule"},
	})
	for _, q := range []permission.Request{located, typed} {
		if got := evaluate(q).SuggestedActions; len(got) != 2 {
			t.Errorf("a location may be told for longer than once: %v", got)
		}
	}
}

func TestEvaluate_capabilities(t *testing.T) {
	t.Parallel()
	with := func(q permission.Request, capabilities map[string]bool) permission.Request {
		q.Workspace.Capabilities = capabilities
		return in("allow_known", q)
	}
	type on = map[string]bool
	for name, c := range map[string]struct {
		q    permission.Request
		want string
	}{
		"shell unsaid":     {with(command("ls"), nil), "deny"},
		"shell off":        {with(command("ls"), on{"shell": false}), "deny"},
		"shell on":         {with(command("ls"), on{"shell": true}), "allow"},
		"delete unsaid":    {with(call("rm", tools.Delete), on{"shell": true}), "deny"},
		"delete on":        {with(call("rm", tools.Delete), on{"delete": true}), "allow"},
		"read unsaid":      {with(call("r", tools.Read), nil), "allow"},
		"read off":         {with(call("r", tools.Read), on{"read": false}), "deny"},
		"write unsaid":     {with(call("w", tools.Write), nil), "allow"},
		"write off":        {with(call("w", tools.Write), on{"write": false}), "deny"},
		"network unsaid":   {with(call("n", tools.Network), nil), "allow"},
		"network off":      {with(call("n", tools.Network), on{"network": false}), "deny"},
		"export off":       {with(call("n", tools.Export), on{"network": false}), "deny"},
		"another thing on": {with(call("n", tools.Network), on{"network": true, "read": false}), "allow"},
	} {
		got := evaluate(c.q)
		if got.Decision != c.want || (c.want == "deny") != (got.Reason.Type == "workspace_capability") {
			t.Errorf("%s: %s because of %s", name, got.Decision, got.Reason.Type)
		}
	}
}

func TestEvaluate_outsideTheWorkspaceNoModeAllows(t *testing.T) {
	t.Parallel()
	edit := call("write_file", tools.Write)
	place := func(named, resolved string) permission.Request {
		q := edit
		q.Path, q.ResolvedPath = named, resolved
		return in("accept_edits", q)
	}
	homeless := on(in("accept_edits", edit), "/w/a")
	homeless.Workspace.Root = ""
	relative := homeless
	relative.Workspace.Root = "w"
	slashed := place("/w/a", "/w/a")
	slashed.Workspace.Root = "/w/"
	all := place("/etc/x", "/etc/x")
	all.Workspace.Root = "/"
	link := place("/w/link", "/etc/passwd")
	expect(t, []decision{
		{"inside", place("/w/a/b", "/w/a/b"), "allow", "mode"},
		{"the root itself", place("/w", "/w"), "ask", "protected_path"},
		{"relative", place("a/b", "/w/a/b"), "allow", "mode"},
		{"back and forth", place("/w/a/../b", "/w/b"), "allow", "mode"},
		{"root with a slash", slashed, "allow", "mode"},
		{"the root is everything", all, "allow", "mode"},
		{"outside", place("/etc/passwd", "/etc/passwd"), "ask", "outside_workspace"},
		{"a name that begins alike", place("/w2/a", "/w2/a"), "ask", "outside_workspace"},
		{"climbs out", place("/w/../etc/passwd", "/etc/passwd"), "ask", "outside_workspace"},
		{"climbs out, resolved wrongly", place("/w/../etc/passwd", "/w/a"), "ask", "outside_workspace"},
		{"climbs out, relative", place("../etc", "/w/etc"), "ask", "outside_workspace"},
		{"a link out", link, "ask", "outside_workspace"},
		{"a link in", place("/home/link", "/w/a"), "ask", "outside_workspace"},
		{"cannot be resolved", place("/w/a", ""), "ask", "outside_workspace"},
		{"resolves to something relative", place("/w/a", "w/a"), "ask", "outside_workspace"},
		{"no path at all", place("/w/a\x00b", "/w/a\x00b"), "ask", "outside_workspace"},
		{"no root", homeless, "ask", "outside_workspace"},
		{"a relative root", relative, "ask", "outside_workspace"},

		{"plan denies", in("plan", link), "deny", "outside_workspace"},
		{"bypass asks", in("bypass_permissions", link), "ask", "outside_workspace"},
		{"a rule about the tool does not", under(link, rule("allow", tool("write_file"))), "ask", "outside_workspace"},
		{"a path rule may", under(place("/etc/x", "/etc/x"), rule("allow", below("/etc"))), "allow", "rule"},
		{"a path rule about the link alone may not", under(link, rule("allow", below("/w/link"))), "ask", "outside_workspace"},
		{"nor about its target alone", under(link, rule("allow", below("/etc"))), "ask", "outside_workspace"},
		{"a grant may", granted(place("/etc/x", "/etc/x"), "path:write_file:/etc/x", fresh), "allow", "bundle_grant"},
		{"a grant for a link may not", granted(link, "path:write_file:/w/link", fresh), "ask", "outside_workspace"},
	})
}

func TestEvaluate_denialsFallBackToAsking(t *testing.T) {
	t.Parallel()
	edit := on(in("plan", call("write_file", tools.Write)), "/w/a")
	count := func(c, n, p int) session.Denial {
		return session.Denial{ConsecutiveDenials: c, TotalDenials: n, PromptedAtTotal: p}
	}
	hard := edit
	hard.Workspace.Capabilities = map[string]bool{"write": false}
	unknown := in("plan", call("mystery", 0))
	expect(t, []decision{
		{"never denied", edit, "deny", "mode"},
		{"twice", denied(edit, count(2, 19, 0)), "deny", "mode"},
		{"three in a row", denied(edit, count(3, 3, 0)), "ask", "denial_fallback"},
		{"twenty in all", denied(edit, count(0, 20, 0)), "ask", "denial_fallback"},
		{"twenty since the answer", denied(edit, count(0, 60, 40)), "ask", "denial_fallback"},
		{"answered since", denied(edit, count(0, 59, 40)), "deny", "mode"},
		{"an unknown tool", denied(unknown, count(3, 3, 0)), "ask", "denial_fallback"},
		{"outside", denied(on(edit, "/etc/x"), count(3, 3, 0)), "ask", "denial_fallback"},
		{"a rule does not", under(denied(edit, count(9, 99, 0)), rule("deny", tool("write_file"))), "deny", "rule"},
		{"a capability does not", denied(hard, count(9, 99, 0)), "deny", "workspace_capability"},
		{"a guardrail does not", denied(in("plan", command("rm -rf /")), count(9, 99, 0)), "deny", "guardrail"},
	})
	got := evaluate(denied(edit, count(3, 7, 2))).Reason.Metadata
	if got.ConsecutiveDenials != 3 || got.TotalDenials != 7 || got.PromptedAtTotal != 2 || got.OriginalReason == nil || got.OriginalReason.Type != "mode" {
		t.Errorf("the reason says %v", got)
	}
	other := edit
	other.Path, other.ResolvedPath = "/w/b", "/w/b"
	other.Denials = denied(edit, count(3, 3, 0)).Denials
	expect(t, []decision{{"another scope", other, "deny", "mode"}})
}

func TestResult_softIsWhatTheModeDenied(t *testing.T) {
	t.Parallel()
	edit := on(in("plan", call("write_file", tools.Write)), "/w/a")
	restricted := edit
	restricted.Restrictions.Denied = []string{"write_file"}
	for name, c := range map[string]struct {
		q    permission.Request
		want bool
	}{
		"by mode":        {edit, true},
		"outside":        {on(edit, "/etc/x"), true},
		"unknown":        {in("plan", call("mystery", 0)), true},
		"by rule":        {under(edit, rule("deny", tool("write_file"))), false},
		"by guardrail":   {in("plan", command("reboot")), false},
		"by restriction": {restricted, false},
		"asked":          {in("default", edit), false},
		"allowed":        {in("accept_edits", edit), false},
	} {
		if got := evaluate(c.q); got.Soft() != c.want {
			t.Errorf("%s: soft is %v (%s)", name, got.Soft(), got.Reason.Type)
		}
	}
}

func TestEvaluate_grants(t *testing.T) {
	t.Parallel()
	edit := on(call("write_file", tools.Write), "/w/a")
	const key = "path:write_file:/w/a"
	with := func(change func(*session.Grant)) permission.Request {
		g := fresh
		change(&g)
		return granted(edit, key, g)
	}
	bundle := func(line string) permission.Request { return granted(command(line), permission.BundleKey, fresh) }
	expect(t, []decision{
		{"live", granted(edit, key, fresh), "allow", "bundle_grant"},
		{"over at this instant", with(func(g *session.Grant) { g.ExpiresAt = now }), "ask", "mode"},
		{"over for long", with(func(g *session.Grant) { g.ExpiresAt = 1 }), "ask", "mode"},
		{"no end is 15 minutes", with(func(g *session.Grant) { g.ExpiresAt, g.GrantedAt = 0, now-15*60_000+1 }), "allow", ""},
		{"and no more", with(func(g *session.Grant) { g.ExpiresAt, g.GrantedAt = 0, now-15*60_000 }), "ask", ""},
		{"never more than a day", with(func(g *session.Grant) { g.ExpiresAt, g.GrantedAt = now+1, now-24*3_600_000 }), "ask", ""},
		{"of another executor", with(func(g *session.Grant) { g.Instance = "you" }), "ask", "mode"},
		{"of another executor that survives", with(func(g *session.Grant) { g.Instance, g.SurvivesRestart = "you", true }), "allow", "bundle_grant"},
		{"for another path", granted(edit, "path:write_file:/w/b", fresh), "ask", "mode"},
		{"for an export", granted(call("post", tools.Export), "tool:post", fresh), "allow", "bundle_grant"},

		{"of the step", bundle("make install"), "allow", "bundle_grant"},
		{"of the step, several commands", bundle("make && make install"), "allow", "bundle_grant"},
		{"of the step, opaque", bundle("make > log"), "ask", "mode"},
		{"of the step, no command", granted(edit, permission.BundleKey, fresh), "ask", "mode"},
		{"for a command", granted(command("make install"), "command_prefix:make install", fresh), "allow", "bundle_grant"},
		{"for one of two", granted(command("make install; reload"), "command_prefix:make install", fresh), "ask", "mode"},
		{"for a longer command", granted(command("make"), "command_prefix:make install", fresh), "ask", "mode"},
		{"for an opaque command", granted(command("make install $(x)"), "command_prefix:make install", fresh), "ask", "mode"},
	})
}

func TestEvaluate_exportNeedsAPerson(t *testing.T) {
	t.Parallel()
	export := call("http_request", tools.Export)
	export.Domain = "api.example.org"
	domain := session.Scope{Kind: "domain", Domain: "api.example.org", ToolName: "http_request"}
	typed := call("send", tools.Read)
	typed.Type = "data_export"
	expect(t, []decision{
		{"bypass", in("bypass_permissions", export), "ask", "mode"},
		{"allow_known", in("allow_known", export), "ask", "mode"},
		{"by type", in("allow_known", typed), "ask", "mode"},
		{"by rule", under(export, rule("allow", domain)), "allow", "rule"},
		{"by grant", granted(export, domain.Fingerprint(), fresh), "allow", "bundle_grant"},
	})
}

func TestEvaluate_bypassPassesOverRulesThatAsk(t *testing.T) {
	t.Parallel()
	edit := on(in("bypass_permissions", call("write_file", tools.Write)), "/w/a")
	export := in("bypass_permissions", call("post", tools.Export))
	expect(t, []decision{
		{"ask rule", under(edit, rule("ask", tool("write_file"))), "allow", "mode"},
		{"deny rule", under(edit, rule("deny", tool("write_file"))), "deny", "rule"},
		{"ask rule about an export", under(export, rule("ask", tool("post"))), "ask", "mode"},
		{"ask rule about a command", in("bypass_permissions", under(command("ls $(rm x)"), rule("ask", prefix("rm")))), "allow", "mode"},
		{"deny rule about a hidden command", in("bypass_permissions", under(command("ls $(rm x)"), rule("deny", prefix("rm")))), "deny", "rule"},
	})
}

func TestEvaluate_missingRulesAreDistrusted(t *testing.T) {
	t.Parallel()
	broken := func(q permission.Request) permission.Request {
		q.Policy = permission.Compile([]session.Rule{rule("deny", prefix("git push"))}, errors.New("cannot be read"))
		return q
	}
	edit := on(call("write_file", tools.Write), "/w/a")
	expect(t, []decision{
		{"reading goes on", broken(on(call("read_file", tools.Read), "/w/a")), "allow", "mode"},
		{"an edit that would be asked for", broken(edit), "ask", "policy_error"},
		{"an edit that would be allowed", broken(in("accept_edits", edit)), "ask", "policy_error"},
		{"bypass", broken(in("bypass_permissions", command("make"))), "ask", "policy_error"},
		{"a safe command", broken(in("dangerous_only", command("ls"))), "ask", "policy_error"},
		{"a rule that allows", broken(under(edit, rule("allow", tool("write_file")))), "ask", "policy_error"},
		{"a grant", broken(granted(edit, "path:write_file:/w/a", fresh)), "ask", "policy_error"},
		{"a rule that denies", broken(command("git push")), "deny", "rule"},
		{"plan", broken(in("plan", edit)), "deny", "mode"},
	})
}

func TestNew_refusesBadGuardrails(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"(", ""} {
		if _, err := permission.New(permission.Config{Guardrails: []string{"ok", text}}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q gave %v", text, err)
		}
	}
}

func TestPrompt_holdsAllThatIsShown(t *testing.T) {
	t.Parallel()
	q := call("search", tools.Read|tools.MCP)
	q.Server = " GitHub"
	q = under(q, rule("ask", session.Scope{Kind: "mcp_server", ServerName: "github"}))
	r := evaluate(q)
	p := r.Prompt(q)
	if p.ServerName != "github" || p.Scope == nil || *p.Scope != r.Scope || p.ScopePreview != r.ScopePreview || p.MatchedRule == nil ||
		!reflect.DeepEqual(p.Reason, r.Reason) || !reflect.DeepEqual(p.SuggestedActions, r.SuggestedActions) {
		t.Errorf("%+v of %+v", p, r)
	}
	p.SuggestedActions[0].Action, p.MatchedRule.Effect, p.Reason.Metadata.Source = "changed", "allow", "changed"
	if again := evaluate(q); !reflect.DeepEqual(again, r) {
		t.Errorf("changing a prompt changed the next result into %+v", again)
	}
}

func TestEffects_haveNames(t *testing.T) {
	t.Parallel()
	e, err := tools.ParseEffects("read", "shell", "mcp")
	if err != nil || e != tools.Read|tools.Shell|tools.MCP || fmt.Sprint(e.Names()) != "[read shell mcp]" {
		t.Errorf("%v, %v", e.Names(), err)
	}
	if _, err := tools.ParseEffects("read", "fly"); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an effect there is not gave %v", err)
	}
	all := tools.Read | tools.Write | tools.Delete | tools.Shell | tools.Network | tools.Export |
		tools.External | tools.Interact | tools.Location | tools.MCP
	if back, err := tools.ParseEffects(all.Names()...); back != all || err != nil || len(all.Names()) != 11 {
		t.Errorf("%v came back as %v, %v", all.Names(), back.Names(), err)
	}
}

func TestOfHTTP_onlyAskingIsNoExport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method        string
		body, headers bool
		want          tools.Effects
	}{
		{"GET", false, false, tools.Network}, {"head", false, false, tools.Network},
		{"GET", true, false, tools.Export}, {"GET", false, true, tools.Export},
		{"POST", false, false, tools.Export}, {"OPTIONS", false, false, tools.Export}, {"", false, false, tools.Export},
	} {
		if got := permission.OfHTTP(c.method, c.body, c.headers); got != c.want {
			t.Errorf("%+v is %v", c, got.Names())
		}
	}
}
