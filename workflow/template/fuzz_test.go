package template_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/template"
)

// FuzzRender looks for templates that panic, run without end or render
// differently the second time.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		"{{ a }}", "{% for k, v in d.items() if v -%} {{ loop.index }}{{ k }} {%- else %}none{% endfor %}",
		"{{ 'x' * 10 ** 9 }}", "{{ (l * 1000) | tojson | truncate(9) }}", "{{ a[::-1] ~ '%05.2f' % 1.5 }}",
		"{% set a = [a, a] %}{% set a = [a, a] %}{{ a == [a] }}", "{{ '{:>{}}'.format(a, 9) }}",
		"{{ a | regex_search('(a*)*b(?=c)\\\\b') }}", "{% raw %}{{{% endraw %}{# #}", "{{ -2 ** 2 // 3 % 5 if a is defined }}",
		"{% with x = 1, y = (2,) %}{{ [x, y, {'k': none}] }}{% endwith %}", "{{ 1 < 2 < 3 and not a in l }}",
	} {
		f.Add(seed, "text", int64(3), 2.5)
	}
	f.Fuzz(func(t *testing.T, text, s string, n int64, x float64) {
		tmpl, err := template.Compile("fuzz", text)
		if err != nil {
			if kindOf(err) != template.KindSyntax {
				t.Fatalf("compile: %v is no syntax error", err)
			}
			return
		}
		a, err := template.From(s)
		if err != nil {
			t.Fatal(err)
		}
		d := &template.Dict{}
		d.Set("k", a)
		d.Set("n", template.Int(n))
		scope := template.Scope{
			"a": a, "d": d, "n": template.Int(n), "x": template.Float(x),
			"l": template.List{a, template.Int(n), template.Float(x), template.None{}, d},
		}
		first, err := tmpl.Render(scope)
		if err != nil && kindOf(err) == "" {
			t.Fatalf("render: %v is not an *Error", err)
		}
		second, again := tmpl.Render(scope)
		if first != second || (err == nil) != (again == nil) {
			t.Fatalf("rendered %q (%v), then %q (%v)", first, err, second, again)
		}
	})
}

// FuzzCondition looks for conditions that panic, or that hold and fail at once.
func FuzzCondition(f *testing.F) {
	for _, seed := range []string{
		"else", "{{ nodes.a.score > 80 }}", "len(set(list(nodes))) == 1", "x.y is defined or range(9)[2:]",
		"nodes.a.text | search('^a+$')", "int('7') in dict(a=1)", "float('1e5') // 3",
	} {
		f.Add(seed, "aaa")
	}
	f.Fuzz(func(t *testing.T, text, s string) {
		condition, err := template.CompileCondition(text)
		if err != nil {
			return
		}
		nodes, err := template.From(map[string]any{"a": map[string]any{"score": 85, "text": s}})
		if err != nil {
			t.Fatal(err)
		}
		holds, err := condition.Eval(template.Scope{"nodes": nodes})
		if holds && err != nil {
			t.Fatalf("%q holds, and fails: %v", text, err)
		}
	})
}
