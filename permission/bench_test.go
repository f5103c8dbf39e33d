package permission_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	tools "github.com/holdfast-dev/holdfast/tool"
)

// manyRules are n rules of all kinds, none of which is about the calls below
// but the last of its kind.
func manyRules(n int) []session.Rule {
	rules := make([]session.Rule, n)
	for i := range rules {
		var s session.Scope
		switch i % 5 {
		case 0:
			s = tool(fmt.Sprint("tool_", i))
		case 1:
			s = below(fmt.Sprint("/w/src/package", i))
		case 2:
			s = prefix(fmt.Sprint("make target", i))
		case 3:
			s = session.Scope{Kind: "domain", Domain: fmt.Sprint("host", i, ".example.org"), ToolName: "web_fetch"}
		case 4:
			s = session.Scope{Kind: "mcp_server", ServerName: fmt.Sprint("server", i)}
		}
		rules[i] = session.Rule{Source: session.SourceWorkspaceDB, Effect: []string{"allow", "deny", "ask"}[i%3], Scope: s, CreatedAt: int64(i)}
	}
	return rules
}

// BenchmarkEvaluate_500rules must stay in microseconds, compiled or not.
func BenchmarkEvaluate_500rules(b *testing.B) {
	rules := manyRules(500)
	policy := permission.Compile(rules, nil)
	engine, err := permission.New(permission.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for name, q := range map[string]permission.Request{
		"path":     on(call("write_file", tools.Write), "/w/src/package496/a/b.go"),
		"command":  command("make target497 -j 4"),
		"pipeline": command("git log --oneline | head -20 && make target497 2>&1"),
	} {
		for how, ready := range map[string]func(*permission.Request){
			"compiled": func(q *permission.Request) { q.Policy = policy },
			"listed":   func(q *permission.Request) { q.Rules = rules },
			"none":     func(*permission.Request) {},
		} {
			q := q
			ready(&q)
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					engine.Evaluate(q)
				}
			})
		}
	}
}

func BenchmarkCompile_500rules(b *testing.B) {
	rules := manyRules(500)
	b.ReportAllocs()
	for b.Loop() {
		permission.Compile(rules, nil)
	}
}
