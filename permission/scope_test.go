package permission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

func TestScope_offered(t *testing.T) {
	t.Parallel()
	fetch := call("web_fetch", tools.Network)
	fetch.Domain = "Example.org"
	browse := call("browser_click", tools.Browser|tools.Network)
	browse.Domain = "example.org"
	post := on(call("http_request", tools.Export|tools.Read), "/w/a")
	post.Domain = "example.org"
	blind := call("web_fetch", tools.Network)
	local := on(call("lookup", tools.Read), "a/../b")
	local.Domain = "example.org"
	served := call("search", tools.MCP)
	served.Server = "GitHub"
	remote := on(served, "/w/a")
	for name, c := range map[string]struct {
		q              permission.Request
		print, preview string
	}{
		"network":                    {fetch, "domain:tool=web_fetch:example.org", "web_fetch on domain example.org"},
		"browser":                    {browse, "domain:prefix=browser_:example.org", "browser_* on domain example.org"},
		"export":                     {post, "domain:tool=http_request:example.org", "http_request on domain example.org"},
		"network, no host":           {blind, "tool:web_fetch", "tool web_fetch"},
		"path":                       {on(call("write_file", tools.Write), "/w/a"), "path:write_file:/w/a", "write_file on path /w/a"},
		"no use of the host":         {local, "path:lookup:/w/b", "lookup on path /w/b"},
		"command":                    {command("git  push 'a b'"), "command_prefix:git push 'a b'", `the command "git push 'a b'"`},
		"command in place":           {on(command("git push"), "/w"), "command_prefix:git push", `the command "git push"`},
		"command that is understood": {command("ls src"), "command_prefix:ls src", `commands starting with "ls src"`},
		"compound command":           {command("git push; ls"), "tool:run_command", "tool run_command"},
		"opaque command":             {command("git push $(x)"), "tool:run_command", "tool run_command"},
		"command to expand":          {command("git push $X"), "tool:run_command", "tool run_command"},
		"server":                     {served, "mcp_server:github", "MCP server github"},
		"path on a server":           {remote, "path:search:/w/a", "search on path /w/a"},
		"nothing else":               {call("note", tools.Write), "tool:note", "tool note"},
	} {
		got := evaluate(c.q)
		if got.Scope.Fingerprint() != c.print || got.ScopePreview != c.preview {
			t.Errorf("%s: %s, %q", name, got.Scope.Fingerprint(), got.ScopePreview)
		}
	}
	for preview, s := range map[string]session.Scope{
		"path /a": below("/a"), "domain a.org": {Kind: "domain", Domain: "a.org"},
	} {
		if got := permission.Preview(s); got != preview {
			t.Errorf("%q, want %q", got, preview)
		}
	}
}

// Whoever says yes for the session is not asked the same again.
func TestScope_answersThatAreKeptCount(t *testing.T) {
	t.Parallel()
	fetch := call("http_request", tools.Export)
	fetch.Domain = "example.org"
	click := call("browser_click", tools.Browser)
	click.Domain = "example.org"
	served := call("search", tools.MCP)
	served.Server = "GitHub"
	for _, q := range []permission.Request{
		fetch, click, served, on(call("write_file", tools.Write), "/w/a"), on(call("write_file", tools.Write), "/etc/a"),
		call("note", tools.Write), call("mystery", 0), command("make install"), command(`echo "a  b" '' \$X 'it'"'"'s' "*"`), command("echo 'a\nb'"),
	} {
		r := evaluate(q)
		if r.Decision != "ask" {
			t.Errorf("%s is not asked for: %s", r.ScopePreview, r.Decision)
		}
		for _, effect := range []string{"allow", "deny"} {
			var p session.Permissions
			p, _, err := p.WithRule(session.Rule{Effect: effect, Scope: r.Scope})
			if err != nil {
				t.Fatal(err)
			}
			if again := evaluate(under(q, p.SessionRules...)); again.Decision != effect || again.MatchedRule == nil {
				t.Errorf("%s: %s after %s was chosen", r.ScopePreview, again.Decision, effect)
			}
			compiled := q
			compiled.Policy = permission.Compile(p.SessionRules, nil)
			if again := evaluate(compiled); again.Decision != effect {
				t.Errorf("%s, compiled: %s after %s was chosen", r.ScopePreview, again.Decision, effect)
			}
		}
		p := session.Permissions{}.WithGrant(r.Scope.Fingerprint(), session.Grant{GrantedAt: now, Instance: "me"})
		q.Grants = p.TemporaryGrants
		if again := evaluate(q); again.Decision != "allow" || again.Reason.Type != "bundle_grant" {
			t.Errorf("%s: %s after it was granted", r.ScopePreview, again.Decision)
		}
	}
}

func TestActions_onlyWhatAnAnswerCanMean(t *testing.T) {
	t.Parallel()
	const once = "deny_once allow_once"
	const most = once + " deny_session allow_session deny_workspace allow_workspace"
	const all = most + " deny_profile allow_profile"
	fleeting := on(call("write_file", tools.Write), "/w/a")
	fleeting.AllowPersistence = false
	export := call("post", tools.Export)
	for name, c := range map[string]struct {
		q    permission.Request
		want string
	}{
		"edit":             {on(call("write_file", tools.Write), "/w/a"), all},
		"command":          {command("make install"), all},
		"unknown tool":     {call("mystery", 0), all},
		"export":           {export, most},
		"location":         {call("where", tools.Location), once},
		"compound":         {command("make; make install"), once},
		"opaque":           {command("make > x"), once},
		"something to set": {command("make $X"), once},
		"no command":       {command(""), once},
		"not to be kept":   {fleeting, once},
	} {
		var got []string
		for _, a := range evaluate(c.q).SuggestedActions {
			got = append(got, a.Action)
			effect, destination, _ := strings.Cut(a.Action, "_")
			if destination == "once" {
				destination = ""
			}
			if a.Label == "" || a.Effect != effect || a.Destination != destination {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if fmt.Sprint(got) != "["+c.want+"]" {
			t.Errorf("%s: %v", name, got)
		}
	}
}
