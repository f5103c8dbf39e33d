package permission_test

import (
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

// Lines put together from parts whose meaning is known: which of them may be
// allowed follows from the parts, without asking a parser.
type part struct {
	text  string
	plain bool // one command that the rule allows, and nothing else
}

var (
	allowedParts = []part{
		{"git status", true}, {"git status -s", true}, {`git "status" a`, true}, {"git status 2>/dev/null", true}, {"git status 2>&1", true}, {"git status 'a; b | c'", true},
	}
	otherParts = []part{
		{"make", false}, {"git statusx", false}, {"git", false}, {"sudo git status", false}, {"curl x", false}, {"git push", false}, {"sh -c 'git status'", false},
		{"git status > x", false}, {"git status $(id)", false}, {"git status `id`", false}, {"X=1 git status", false}, {"git status <(id)", false}, {"eval git status", false},
		{"git status <<< x", false}, {`git status "$(id)"`, false}, {"git status >> x", false}, {"if git status; then git status; fi", false}, {"git status >&x", false},
		{"git status ${X:-`id`}", false}, {"f() { git status; }", false}, {"for i in 1; do git status; done", false}, {"git status )", false}, {"git status |& git status", false},
	}
	joins = []string{"; ", ";", " && ", "&&", " || ", " | ", "|", " & ", "\n", "\n\n"}
)

// Of a line put together at random, exactly those are allowed by a rule whose
// every part is.
func TestInvariant_nothingBehindAnOperatorIsAllowed(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	q := under(command(""), rule("allow", prefix("git status")))
	safe := in("dangerous_only", command(""))
	bundled := granted(command(""), "command_prefix:git status", fresh)
	const lines = 60_000
	allowed := 0
	for i := range lines {
		n := 1 + r.IntN(4)
		var b strings.Builder
		plain := true
		for at := range n {
			from := allowedParts
			if r.IntN(5) == 0 {
				from = otherParts
			}
			p := from[r.IntN(len(from))]
			plain = plain && p.plain
			if at > 0 {
				b.WriteString(joins[r.IntN(len(joins))])
			}
			text := p.text
			switch r.IntN(12) {
			case 0:
				text = "(" + text + ")"
			case 1:
				text = "{ " + text + "; }"
			}
			b.WriteString(text)
		}
		q.Command = b.String()
		got := evaluate(q).Decision
		if (got == "allow") != plain {
			t.Fatalf("%q is decided %s, made of allowed parts: %v", q.Command, got, plain)
		}
		if plain {
			allowed++
		}
		safe.Command, bundled.Command = q.Command, q.Command
		if !plain && i%8 == 0 && (evaluate(safe).Decision == "allow" || evaluate(bundled).Decision == "allow") {
			t.Fatalf("%q is allowed by the safe list or a grant", q.Command)
		}
	}
	if allowed < lines/10 || allowed > lines*9/10 {
		t.Errorf("%d of %d lines were allowed: the test sees one side only", allowed, lines)
	}
}

// Paths put together at random, with links that lead anywhere: outside the
// workspace nothing is allowed by a mode or a rule about anything but paths.
func TestInvariant_nothingOutsideTheWorkspaceIsAllowed(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	names := []string{"w", "a", "..", ".", "", "w2", "etc", "b c", "...", "~"}
	some := func() string {
		var parts []string
		for range 1 + r.IntN(6) {
			parts = append(parts, names[r.IntN(len(names))])
		}
		p := strings.Join(parts, "/")
		if r.IntN(3) > 0 {
			p = "/" + p
		}
		if p == "" || r.IntN(2) == 0 {
			p = "/w/" + p
		}
		return p
	}
	// inside says it by walking, not by comparing prefixes.
	inside := func(p string) bool {
		at := []string{}
		if !path.IsAbs(p) {
			at = append(at, "w")
		}
		for _, name := range strings.Split(p, "/") {
			switch name {
			case "", ".":
			case "..":
				at = at[:max(0, len(at)-1)]
			default:
				at = append(at, name)
			}
		}
		return len(at) > 0 && at[0] == "w"
	}
	effects := []tools.Effects{tools.Read, tools.Write, tools.Read | tools.Write, tools.Delete, tools.Network | tools.Read, tools.Shell}
	count := [2]int{}
	for range 40_000 {
		q := call("tool", effects[r.IntN(len(effects))])
		q.Mode, q.Path = pick(r, someModes), some()
		switch r.IntN(4) {
		case 0:
			q.ResolvedPath = path.Clean("/" + some())
		case 1:
			q.ResolvedPath = ""
		default:
			q.ResolvedPath = q.Path
			if !path.IsAbs(q.Path) {
				q.ResolvedPath = path.Join(root, q.Path)
			}
		}
		if q.Effects.Has(tools.Shell) {
			q.Command = "git status"
			q = granted(q, permission.BundleKey, fresh)
		}
		if r.IntN(3) == 0 {
			q = under(q, rule("allow", tool("tool")), rule("allow", prefix("git")))
		}
		in := inside(q.Path) && q.ResolvedPath != "" && inside(q.ResolvedPath)
		got := evaluate(q)
		if !in && got.Decision == "allow" {
			t.Fatalf("path %q resolved to %q is allowed in %s because of %s", q.Path, q.ResolvedPath, q.Mode, got.Reason.Type)
		}
		if !in && q.Mode == "plan" && got.Decision != "deny" {
			t.Fatalf("path %q is not denied in plan: %s", q.Path, got.Decision)
		}
		if in && q.Mode == "bypass_permissions" && got.Decision != "allow" {
			t.Fatalf("path %q resolved to %q is not allowed in bypass: %s because of %s", q.Path, q.ResolvedPath, got.Decision, got.Reason.Type)
		}
		if in {
			count[0]++
		} else {
			count[1]++
		}
	}
	if min(count[0], count[1]) < 4_000 {
		t.Errorf("%d inside, %d outside: the test sees one side only", count[0], count[1])
	}
}

// A tool nobody knows is never allowed unasked, unless everything is.
func TestInvariant_noUnknownToolIsAllowed(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		q := someRequest(r)
		q.Rules = nil
		if r.IntN(2) == 0 {
			q.Known = false
		} else {
			q.Effects = 0
		}
		got := evaluate(q)
		switch {
		case q.Mode == "bypass_permissions":
		case got.Decision == "allow":
			t.Fatalf("%+v is allowed because of %s", q, got.Reason.Type)
		case q.Mode == "plan" && got.Decision != "deny" && !q.Effects.Has(tools.Location):
			t.Fatalf("%+v is decided %s in plan", q, got.Decision)
		}
	}
}

// What is added to a line can only make it less permitted.
var additions = []struct{ before, after string }{
	{"", "; id"}, {"", " && id"}, {"", " || id"}, {"", " | id"}, {"", " |& id"}, {"", " & id"}, {"", "\nid"}, {"", " $(id)"}, {"", " `id`"}, {"", " > out"}, {"", " >> out"},
	{"", " < in"}, {"", " <<< x"}, {"", " <(id)"}, {"", "\n(id)"}, {"", " &> out"}, {"id; ", ""}, {"id && ", ""}, {"X=1 ", ""}, {"eval ", ""}, {"$(id) ", ""}, {"", " > /dev/null"}, {"", " 2>&1"},
	{"(", ")"}, {"{ ", "; }"}, {"if true; then ", "; fi"}, {"", " &"}, {"", ";"}, {"", " \""}, {"", "\x00"}, {"", " {a,b}"}, {"", " 2> out"}, {"", "<<E\nE\n"},
}

// mode of the line it is asked in; only those whose decision depends on it.
var lineModes = []string{"plan", "default", "dangerous_only"}

func checkAdditions(t *testing.T, line string, rules []session.Rule) {
	t.Helper()
	for _, mode := range lineModes {
		q := in(mode, under(command(line), rules...))
		before := evaluate(q)
		if before.Decision == "allow" || before.Reason.Metadata.Opaque == "it cannot be parsed" {
			continue // what is added may complete what was torn
		}
		for _, a := range additions {
			q.Command = a.before + line + a.after
			if after := evaluate(q); after.Decision == "allow" {
				t.Fatalf("%q is decided %s in %s; %q is allowed because of %s", line, before.Decision, mode, q.Command, after.Reason.Type)
			}
		}
	}
}

func TestInvariant_additionsNeverAllow(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	words := []string{"git", "status", "push", "ls", "-la", "make", "sudo", "env", "A=1", "|", "&&", ";", "a.go", "*", "find", ".", "-delete", "cat", "/etc/x", "../x", "!", "time", "xargs"}
	rules := []session.Rule{rule("allow", prefix("git status")), rule("deny", prefix("git push")), rule("ask", prefix("ls -la")), rule("allow", prefix("ls"))}
	for range 400 {
		var b []string
		for range 1 + r.IntN(6) {
			b = append(b, words[r.IntN(len(words))])
		}
		checkAdditions(t, strings.Join(b, " "), rules)
	}
}
