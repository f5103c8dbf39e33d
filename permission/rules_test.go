package permission_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

func TestRules_denyWinsThenTheNarrowest(t *testing.T) {
	t.Parallel()
	q := on(call("write_file", tools.Write|tools.Network), "/w/src/a.go")
	q.Domain, q.Server = "example.org", "files"
	all := tools.Shell | q.Effects
	shell := q
	shell.Command, shell.Effects = "git log origin", all

	// Each beats those before it.
	ladder := []session.Scope{
		tool("write_file"),
		{Kind: "mcp_server", ServerName: "files"},
		prefix("git"),
		prefix("git log"),
		below("/w"),
		below("/w/src"),
		{Kind: "domain", Domain: "example.org"},
		{Kind: "path", Path: "/w", ToolName: "write_file"},
		{Kind: "path", Path: "/w/src", ToolName: "write_file"},
		{Kind: "domain", Domain: "example.org", ToolPrefix: "write_"},
		{Kind: "domain", Domain: "example.org", ToolName: "write_file"},
		{Kind: "domain", Domain: "example.org", ToolName: "write_file", ToolPrefix: "write_"},
	}
	for i, wide := range ladder {
		for _, narrow := range ladder[i+1:] {
			for _, effects := range [][2]string{{"ask", "allow"}, {"allow", "ask"}, {"allow", "deny"}} {
				older, newer := rule(effects[0], wide), rule(effects[1], narrow)
				older.CreatedAt = 5 // being newer, or of a higher source, does not help
				newer.Source = session.SourceLegacySettings
				got := evaluate(under(shell, older, newer))
				if got.Decision != effects[1] || got.MatchedRule.Scope != narrow {
					t.Errorf("%s against %s: %s", narrow.Fingerprint(), wide.Fingerprint(), got.Decision)
				}
			}
			for _, effect := range []string{"allow", "ask"} {
				got := evaluate(under(shell, rule("deny", wide), rule(effect, narrow)))
				if got.Decision != "deny" || got.MatchedRule.Scope != wide {
					t.Errorf("%s %s won against the denial of %s", effect, narrow.Fingerprint(), wide.Fingerprint())
				}
			}
		}
	}
}

func TestRules_thenSourceThenEffectThenAge(t *testing.T) {
	t.Parallel()
	q := call("t", tools.Write)
	sources := []string{"of another program", "legacy_builtin_settings", "legacy_guardrails", "profile", "workspace_manifest", "workspace_db", "session"}
	with := func(source, effect string, at int64) session.Rule {
		return session.Rule{Source: source, Effect: effect, Scope: tool("t"), CreatedAt: at}
	}
	for i, low := range sources {
		for _, high := range sources[i+1:] {
			if got := evaluate(under(q, with(low, "ask", 9), with(high, "allow", 1))); got.MatchedRule.Source != high || got.Decision != "allow" {
				t.Errorf("%s won against %s", low, high)
			}
			if got := evaluate(under(q, with(low, "deny", 1), with(high, "allow", 9))); got.Decision != "deny" {
				t.Errorf("what %s allows won against what %s denies", high, low)
			}
		}
	}
	for _, c := range [][2]string{{"deny", "allow"}, {"deny", "ask"}, {"ask", "allow"}} {
		if got := evaluate(under(q, with("session", c[1], 9), with("session", c[0], 1))); got.Decision != c[0] {
			t.Errorf("%s won against %s", c[1], c[0])
		}
	}
	if got := evaluate(under(q, with("session", "ask", 1), with("session", "ask", 2), with("session", "ask", 0))); got.MatchedRule.CreatedAt != 2 {
		t.Errorf("the rule of %d decided", got.MatchedRule.CreatedAt)
	}
	// Rules alike in all that counts: the order they come in has no say.
	x, y := with("session", "ask", 1), with("session", "ask", 1)
	x.ID, y.ID = "x", "y"
	if there, back := evaluate(under(q, x, y)), evaluate(under(q, y, x)); !reflect.DeepEqual(there, back) {
		t.Errorf("%s decided, or %s", there.MatchedRule.ID, back.MatchedRule.ID)
	}
}

func TestRules_matching(t *testing.T) {
	t.Parallel()
	edit := on(call("write_file", tools.Write), "/w/src/a.go")
	link := edit
	link.ResolvedPath = "/w/vendor/a.go"
	fetch := call("browser_open", tools.Browser)
	fetch.Domain = "Example.ORG"
	served := call("search", tools.MCP)
	served.Server = " GitHub"
	for name, c := range map[string]struct {
		q     permission.Request
		scope session.Scope
		want  string // the effects that count
	}{
		"tool":               {edit, tool("write_file"), "allow ask deny"},
		"another tool":       {edit, tool("write_file2"), ""},
		"tool by its case":   {edit, tool("Write_file"), ""},
		"no tool":            {edit, tool(""), ""},
		"any tool":           {edit, tool("*"), ""},
		"path":               {edit, below("/w/src/a.go"), "allow ask deny"},
		"folder":             {edit, below("/w/src"), "allow ask deny"},
		"folder, slash":      {edit, below("/w/src/"), "allow ask deny"},
		"folder, dots":       {edit, below("/w/x/../src"), "allow ask deny"},
		"folder, case":       {edit, below("/w/SRC"), "ask deny"},
		"part of a name":     {edit, below("/w/sr"), ""},
		"below":              {edit, below("/w/src/a.go/b"), "ask deny"},
		"below, reading":     {on(call("read_file", tools.Read), "/w/src"), below("/w/src/a.go"), ""},
		"root":               {edit, below("/"), "allow ask deny"},
		"no path":            {edit, below(""), ""},
		"any path":           {edit, below("*"), ""},
		"relative path":      {edit, below("src"), ""},
		"path of the tool":   {edit, session.Scope{Kind: "path", Path: "/w", ToolName: "write_file"}, "allow ask deny"},
		"path, another tool": {edit, session.Scope{Kind: "path", Path: "/w", ToolName: "read_file"}, ""},
		"link as named":      {link, below("/w/src"), "ask deny"},
		"link as resolved":   {link, below("/w/vendor"), "ask deny"},
		"link, both":         {link, below("/w"), "allow ask deny"},
		"domain":             {fetch, session.Scope{Kind: "domain", Domain: "example.org"}, "allow ask deny"},
		"domain, case":       {fetch, session.Scope{Kind: "domain", Domain: "EXAMPLE.org."}, "allow ask deny"},
		"domain, tool":       {fetch, session.Scope{Kind: "domain", Domain: "example.org", ToolName: "browser_open"}, "allow ask deny"},
		"domain, other tool": {fetch, session.Scope{Kind: "domain", Domain: "example.org", ToolName: "fetch"}, ""},
		"domain, prefix":     {fetch, session.Scope{Kind: "domain", Domain: "example.org", ToolPrefix: "browser_"}, "allow ask deny"},
		"domain, not prefix": {fetch, session.Scope{Kind: "domain", Domain: "example.org", ToolPrefix: "web_"}, ""},
		"subdomain":          {fetch, session.Scope{Kind: "domain", Domain: "www.example.org"}, ""},
		"parent domain":      {fetch, session.Scope{Kind: "domain", Domain: "org"}, ""},
		"no domain":          {fetch, session.Scope{Kind: "domain"}, ""},
		"any domain":         {fetch, session.Scope{Kind: "domain", Domain: "*"}, ""},
		"server":             {served, session.Scope{Kind: "mcp_server", ServerName: "GITHUB "}, "allow ask deny"},
		"another server":     {served, session.Scope{Kind: "mcp_server", ServerName: "git"}, ""},
		"no server":          {served, session.Scope{Kind: "mcp_server"}, ""},
		"server of none":     {edit, session.Scope{Kind: "mcp_server"}, ""},
		"no kind":            {edit, session.Scope{ToolName: "write_file"}, ""},
		"command of none":    {edit, prefix("ls"), ""},
	} {
		for _, effect := range []string{"allow", "ask", "deny"} {
			r := rule(effect, c.scope)
			want := len(c.want) > 0 && (c.want == "allow ask deny" || effect != "allow")
			if got := evaluate(under(c.q, r)); (got.MatchedRule != nil) != want {
				t.Errorf("%s, %s: matched is %v", name, effect, !want)
			}
			compiled := c.q
			compiled.Policy = permission.Compile([]session.Rule{r}, nil)
			if got := evaluate(compiled); (got.MatchedRule != nil) != want {
				t.Errorf("%s, %s, compiled: matched is %v", name, effect, !want)
			}
		}
	}
	if got := evaluate(under(edit, rule("permit", tool("write_file")))); got.MatchedRule != nil {
		t.Error("an effect there is not decided")
	}
}

func TestCompile_leavesBadRulesOut(t *testing.T) {
	t.Parallel()
	p := permission.Compile([]session.Rule{
		rule("allow", prefix("")), rule("allow", prefix("ls; rm x")), rule("allow", tool("*")), rule("allow", below("src")), rule("deny", prefix("git push")),
	}, nil)
	if len(p.Warnings()) != 4 {
		t.Errorf("warned of %q", p.Warnings())
	}
	q := command("git push")
	q.Policy = p
	expect(t, []decision{{"the good one counts", q, "deny", "rule"}})
}

// universe is rules and calls that have much to do with each other.
var (
	someTools    = []string{"run_command", "write_file", "browser_open"}
	somePaths    = []string{"/w", "/w/a", "/w/a/b", "/w/ab", "/etc", "/"}
	somePrefixes = []string{"git", "git push", "ls", "rm", `echo "a b"`, "sudo git", "*", ""}
	someDomains  = []string{"a.org", "b.org"}
	someSources  = []string{"session", "workspace_db", "profile", "else"}
	someLines    = []string{"git push", "ls; git push", "ls $(rm x)", "echo 'a b'", "sudo git push", "rm x | ls", "ls > x", "git status", "FOO=1 ls", "ls {a,b}"}
	someModes    = []string{"plan", "default", "dont_ask", "accept_edits", "dangerous_only", "allow_known", "bypass_permissions"}
)

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func someRule(r *rand.Rand) session.Rule {
	s := session.Scope{Kind: pick(r, []string{"tool", "path", "command_prefix", "mcp_server", "domain"})}
	switch s.Kind {
	case "tool":
		s.ToolName = pick(r, someTools)
	case "path":
		s.Path = pick(r, somePaths)
		if r.IntN(2) == 0 {
			s.ToolName = pick(r, someTools)
		}
	case "command_prefix":
		s.Prefix = pick(r, somePrefixes)
	case "mcp_server":
		s.ServerName = "srv"
	case "domain":
		s.Domain = pick(r, someDomains)
		if r.IntN(2) == 0 {
			s.ToolPrefix = "browser_"
		}
	}
	return session.Rule{Source: pick(r, someSources), Effect: pick(r, []string{"allow", "ask", "deny"}), Scope: s, CreatedAt: int64(r.IntN(3)), ID: pick(r, []string{"", "x", "y"})}
}

func someRequest(r *rand.Rand) permission.Request {
	q := call(pick(r, someTools), tools.Effects(r.IntN(1<<11)))
	q.Known, q.Mode = r.IntN(8) > 0, pick(r, someModes)
	if r.IntN(2) == 0 {
		q.Effects, q.Command = tools.Shell, pick(r, someLines)
	}
	if r.IntN(2) == 0 {
		q.Path, q.ResolvedPath = pick(r, somePaths), pick(r, somePaths)
	}
	if r.IntN(3) == 0 {
		q.Domain = pick(r, someDomains)
	}
	if r.IntN(4) == 0 {
		q.Server = "srv"
	}
	for range r.IntN(12) {
		q.Rules = append(q.Rules, someRule(r))
	}
	return q
}

func TestEvaluate_orderOfRulesHasNoSay(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		r := rand.New(rand.NewPCG(property.Uint64().Draw(t, "seed"), 1))
		q := someRequest(r)
		want := evaluate(q)
		for range 4 {
			q.Rules = append([]session.Rule{}, q.Rules...)
			r.Shuffle(len(q.Rules), func(i, j int) { q.Rules[i], q.Rules[j] = q.Rules[j], q.Rules[i] })
			if got := evaluate(q); !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v\ngave %+v, then %+v", q, want, got)
			}
		}
		// Compiled or not, in one list or two, rules say the same.
		split := q
		half := len(q.Rules) / 2
		split.Rules, split.Policy = q.Rules[:half], permission.Compile(q.Rules[half:], nil)
		if got := evaluate(split); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\ngave %+v, compiled %+v", q, want, got)
		}
	})
}
