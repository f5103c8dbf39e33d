package template_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/template"
)

func TestRender_boundsWorkAndMemory(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"repeated string":    "{{ 'x' * 10**9 }}",
		"repeated list":      "{{ [1] * 10**9 }}",
		"power":              "{{ 10 ** (10 ** 10) }}",
		"power of negative":  "{{ (-7) ** (10**30) }}",
		"large product":      "{% set a = 10**4000 %}{{ a * a }}",
		"nested loops":       "{% for a in s %}{% for b in s %}{% for c in s %}{% for d in s %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
		"output":             "{% for a in s %}{% for b in s %}{% for c in s %}{{ s * 1000 }}{% endfor %}{% endfor %}{% endfor %}",
		"doubling list":      strings.Repeat("{% set l = [l, l] %}", 60) + "{{ l }}",
		"doubling equality":  strings.Repeat("{% set l = [l, l] %}", 60) + "{{ l == [l[0], l[1]] }}",
		"doubling JSON":      strings.Repeat("{% set l = [l, l] %}", 60) + "{{ l|tojson }}",
		"doubling string":    strings.Repeat("{% set s = s ~ s %}", 60) + "{{ s }}",
		"replace":            "{{ (s * 1000).replace('', s * 1000) }}",
		"join":               "{{ (s * 1000).join(s * 1000) }}",
		"width of a format":  "{{ '{:999999999}'.format(1) }}",
		"width of a printf":  "{{ '%999999999d' % 1 }}",
		"endless pattern":    "{{ s|regex_search('(a|aa)+$') }}",
		"deeply nested list": strings.Repeat("{% set l = [l] %}", 600) + "{{ l }}",
	} {
		scope := template.Scope{"s": template.Str(strings.Repeat("a", 60) + "b"), "l": template.List{template.Int(1)}}
		if out, err := render(text, scope); kindOf(err) != template.KindLimit {
			t.Errorf("%s: %d bytes, error %v, want a limit", name, len(out), err)
		}
	}
}

func TestCompile_boundsNesting(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"parentheses": "{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}",
		"not":         "{{ " + strings.Repeat("not ", 5000) + "1 }}",
		"minus":       "{{ " + strings.Repeat("- ", 5000) + "1 }}",
		"sum":         "{{ 1" + strings.Repeat(" + 1", 50_000) + " }}",
		"attributes":  "{{ a" + strings.Repeat(".b", 50_000) + " }}",
		"if":          strings.Repeat("{% if 1 %}", 5000) + strings.Repeat("{% endif %}", 5000),
		"targets":     "{% set " + strings.Repeat("(", 5000) + "a" + strings.Repeat(")", 5000) + " = 1 %}",
	} {
		if _, err := template.Compile("test", text); kindOf(err) != template.KindSyntax {
			t.Errorf("%s: error %v, want a syntax error", name, err)
		}
	}
}

func TestFrom_refusesWhatHasNoPython(t *testing.T) {
	t.Parallel()
	var deep any = "end"
	for range 2000 {
		deep = []any{deep}
	}
	for name, v := range map[string]any{"channel": make(chan int), "struct": struct{}{}, "inside": []any{map[string]any{"k": &deep}}, "depth": deep} {
		if got, err := template.From(v); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}
