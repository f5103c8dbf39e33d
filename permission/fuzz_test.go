package permission_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

// FuzzCommand feeds any line: nothing panics, nothing is allowed that a parser
// cannot take apart, and what is added to a line never allows it.
func FuzzCommand(f *testing.F) {
	for _, line := range append(someLines, `ls $'a\'; git push #'`, "git status\\\n-s", "f(){ f|f& };f", "a=(1 2) ls", "git status {a,b}{c,d}", "sh -c \"sh -c 'ls'\"",
		"ls <<E\n$(id)\nE", "git status ${x@P}", "case x in (a) ls;; esac", "ls &>>x", "git status 3<&1-", "time -p ls", "coproc ls", "[[ a =~ b ]] && ls", "ls |& cat", "ls;&") {
		f.Add(line)
	}
	rules := []session.Rule{rule("allow", prefix("git status")), rule("deny", prefix("git push")), rule("ask", prefix("ls -la")), rule("allow", prefix("ls"))}
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > 2_000 {
			return
		}
		q := under(command(line), rules...)
		first := evaluate(q)
		if again := evaluate(q); !reflect.DeepEqual(first, again) {
			t.Fatalf("%q: %+v, then %+v", line, first, again)
		}
		for _, a := range []struct{ before, after string }{{"make; ", ""}, {"make\n", ""}, {"make && ", ""}, {"make | ", ""}, {"make & ", ""}} {
			q.Command = a.before + line + a.after
			if got := evaluate(q); got.Decision == "allow" {
				t.Fatalf("%q is allowed", q.Command)
			}
		}
		// A prefix that is offered for a line is a rule for that line.
		if first.Scope.Kind == session.ScopeCommandPrefix {
			r, err := permission.CheckRule(rule("deny", first.Scope))
			if err != nil {
				t.Fatalf("%q offers %q: %v", line, first.Scope.Prefix, err)
			}
			if got := evaluate(under(command(line), r)); got.Decision != "deny" {
				t.Fatalf("%q offers %q, which is not about it: %s", line, first.Scope.Prefix, got.Decision)
			}
		}
		if safe := under(command(line)); evaluate(in("default", safe)).Decision == "allow" || evaluate(in("plan", safe)).Decision != "deny" {
			t.Fatalf("%q is allowed without anybody's word", line)
		}
	})
}

// FuzzEvaluate feeds any call and any rules: nothing panics, and what must not
// be allowed is not.
func FuzzEvaluate(f *testing.F) {
	f.Add(uint64(1), "write_file", "/w/a", "/w/a", "git status", "a.org", "allow", "git", uint16(2))
	f.Add(uint64(2), "", "..", "", "ls\x00", " A.org. ", "deny", "*", uint16(0))
	f.Fuzz(func(t *testing.T, seed uint64, name, named, resolved, line, domain, effect, words string, effects uint16) {
		if len(line) > 2_000 || len(words) > 2_000 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 9))
		q := someRequest(r)
		q.Tool, q.Path, q.ResolvedPath, q.Command, q.Domain, q.Effects = name, named, resolved, line, domain, tools.Effects(effects)
		q.Rules = append(q.Rules, session.Rule{Source: "session", Effect: effect, Scope: prefix(words)},
			session.Rule{Source: words, Effect: effect, Scope: session.Scope{Kind: "domain", Domain: domain, ToolPrefix: name}},
			session.Rule{Effect: effect, Scope: below(named)}, session.Rule{Effect: effect, Scope: tool(words)})
		got := evaluate(q)
		if got.Decision != "allow" && got.Decision != "ask" && got.Decision != "deny" {
			t.Fatalf("decided %q", got.Decision)
		}
		r.Shuffle(len(q.Rules), func(i, j int) { q.Rules[i], q.Rules[j] = q.Rules[j], q.Rules[i] })
		if again := evaluate(q); !reflect.DeepEqual(got, again) {
			t.Fatalf("%+v, then %+v", got, again)
		}
		q.Rules = nil
		if alone := evaluate(q); alone.Decision == "allow" && alone.Reason.Type == "mode" {
			if q.Mode != "bypass_permissions" && (!q.Known || effects == 0) {
				t.Fatalf("an unknown tool is allowed in %s", q.Mode)
			}
			if q.Effects.Has(tools.Export | tools.Location) {
				t.Fatalf("%v is allowed in %s", q.Effects.Names(), q.Mode)
			}
			if named != "" && resolved == "" {
				t.Fatalf("a path that leads nowhere is allowed in %s", q.Mode)
			}
		}
	})
}

// FuzzDecodeRules feeds any file: what is taken can be written and read again.
func FuzzDecodeRules(f *testing.F) {
	f.Add([]byte(`{"version":1,"rules":[{"effect":"allow","scope":{"kind":"command_prefix","prefix":"git 'a b'"}},{"effect":"deny","scope":{"kind":"path","path":"a"}}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, _, err := permission.DecodeRules(data, session.SourceProfile, "/home")
		if err != nil {
			return
		}
		written, err := permission.EncodeRules(rules)
		if err != nil {
			t.Fatal(err)
		}
		back, warnings, err := permission.DecodeRules(written, session.SourceProfile, "/home")
		if err != nil || len(warnings) > 0 || !reflect.DeepEqual(back, rules) {
			t.Fatalf("%+v came back as %+v, %v, %v", rules, back, warnings, err)
		}
	})
}
