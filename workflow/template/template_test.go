package template_test

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

func TestCompile_errorNamesItsPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"one\r\ntwo {{ 'é' | upper }}": "spec:2:14: unknown filter upper",
		"{% if a %}x":                  "spec:1:12: endif is missing",
		"\n\n  {% include 'x' %}":      "spec:3:6: the statement include is not supported",
		"{{ a.b.c() }}":                "spec:1:7: unknown method c",
		"{{ a | regex_search('(') }}":  `spec:1:8: pattern "(", position 1: missing )`,
	} {
		_, err := template.Compile("spec", text)
		var e *template.Error
		if !errors.As(err, &e) || e.Kind != template.KindSyntax || e.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestRender_errorNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	scope := scopeOf(t, []byte(`{"tasks": {"draft": {"list": [1]}}}`))
	for text, want := range map[string]string{
		"{{ topic }}":                     "spec:1:1: topic is not defined",
		"a\n{{ tasks.draft.text|title }}": "spec:2:21: tasks.draft.text is not defined",
		"{{ tasks.draft.list[3] + 1 }}":   "spec:1:24: tasks.draft.list[3] is not defined",
		"{{ tasks['other'].x }}":          "spec:1:9: tasks['other'] is not defined",
		"{% if a.b %}{% endif %}":         "spec:1:7: a is not defined",
	} {
		tmpl, err := template.Compile("spec", text)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tmpl.Render(scope)
		if kindOf(err) != template.KindUndefined || err.Error() != want || out != "" {
			t.Errorf("%q: %q, error %v, want %s", text, out, err, want)
		}
	}
}

func TestRender_valuesAreNotRenderedAgain(t *testing.T) {
	t.Parallel()
	scope := template.Scope{"a": template.Str("{{ b }}{% if %}\r\n"), "b": template.Str("secret")}
	if out, err := render("{{ a }}", scope); err != nil || out != "{{ b }}{% if %}\r\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestCompile_keepsTheNewlineWhenAsked(t *testing.T) {
	t.Parallel()
	tmpl, err := template.Options{KeepNewline: true}.Compile("prompt", "Go on, {{ who }}?\r\n\n")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := tmpl.Render(template.Scope{"who": template.Str("Ada")}); err != nil || out != "Go on, Ada?\n\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestHasDelimiters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "{ {": false, "a } %}": false, "{": false, "x {{": true, "{%": true, "{{}": true, "{ {#": true} {
		if got := template.HasDelimiters(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestFrom_keepsTheOrderOfYAML(t *testing.T) {
	t.Parallel()
	var decoded any
	if err := yaml.UnmarshalWithOptions([]byte("z: 1\na: [1.0, null, yes]\nm: {b: 2, a: 1844674407370955}\n"), &decoded, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	v, err := template.From(decoded)
	if err != nil {
		t.Fatal(err)
	}
	out, err := render("{{ v }} {{ v|tojson }}", template.Scope{"v": v})
	if err != nil || !strings.HasPrefix(out, "{'z': 1, 'a': [1.0, None, 'yes'], 'm': {'b': 2, 'a': 1844674407370955") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestFrom_sortsTheKeysOfGoMaps(t *testing.T) {
	t.Parallel()
	v, err := template.From(map[string]any{"b": uint64(math.MaxUint64), "a": json.Number("1.0"), "c": []string{"x\xff"}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := render("{{ v }}", template.Scope{"v": v}); err != nil || out != "{'a': 1.0, 'b': 18446744073709551615, 'c': ['x\uFFFD']}" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestRender_goroutinesShareATemplate(t *testing.T) {
	t.Parallel()
	tmpl, err := template.Compile("shared", "{% for x in l %}{% set y = x %}{{ y|regex_search('(\\\\d)') }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	scope := scopeOf(t, []byte(`{"l": ["a1", "b2", "c3"]}`))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if out, err := tmpl.Render(scope); err != nil || out != "123" {
					t.Errorf("%q, %v", out, err)
				}
			}
		})
	}
	wg.Wait()
}

// jsonValues draws nested values that JSON can hold.
func jsonValues() property.Generator[any] {
	leaf := property.OneOf(
		property.Just[any](nil), property.Map(property.Bool(), func(b bool) any { return b }),
		property.Map(property.Int64(), func(n int64) any { return n }),
		property.Map(property.StringOf("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 '\"\\äß\n", 0, 20), func(s string) any { return s }),
	)
	return property.Custom(func(t *property.T) any {
		switch property.IntRange(0, 3).Draw(t, "shape") {
		case 0:
			return property.SliceOfN(leaf, 0, 4).Draw(t, "list")
		case 1:
			return property.MapOfN(property.StringOf("abcdefghijklmnopqrstuvwxyz\"é", 0, 3), leaf, 0, 4).Draw(t, "dict")
		default:
			return leaf.Draw(t, "leaf")
		}
	})
}

func TestTojson_readsBackAsTheSameValue(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		v, err := template.From(jsonValues().Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := render("{{ v|tojson }}", template.Scope{"v": v})
		if err != nil {
			t.Fatal(err)
		}
		back, err := template.ParseJSON([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if same, err := render("{{ a == b }}", template.Scope{"a": v, "b": back}); err != nil || same != "True" {
			t.Fatalf("%s reads back as something else: %s %v", text, same, err)
		}
	})
}

func TestPrint_reprIsALiteralOfTheSameValue(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		v, err := template.From(jsonValues().Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		literal, err := render("{{ [v] }}", template.Scope{"v": v})
		if err != nil {
			t.Fatal(err)
		}
		if same, err := render("{{ [v] == "+literal+" }}", template.Scope{"v": v}); err != nil || same != "True" {
			t.Fatalf("%s: %s %v", literal, same, err)
		}
	})
}

func TestPrint_floatsAreShortestAndReadBack(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		f := property.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "f")
		text, err := render("{{ f }}", template.Scope{"f": template.Float(f)})
		if err != nil {
			t.Fatal(err)
		}
		back, err := strconv.ParseFloat(text, 64)
		if err != nil || back != f || !strings.ContainsAny(text, ".en") {
			t.Fatalf("%v prints as %s", f, text)
		}
		digits := func(s string) int {
			return len(strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(strings.Split(s, "e")[0]), "0"))
		}
		if shortest := strconv.FormatFloat(f, 'e', -1, 64); digits(text) != digits(shortest) {
			t.Fatalf("%v prints as %s, shortest is %s", f, text, shortest)
		}
	})
}

func BenchmarkRender_prompt(b *testing.B) {
	tmpl, err := template.Compile("prompt", `You review {{ topic|title }}.
{% for s in steps if s.status == 'success' %}
## Step {{ loop.index }} of {{ loop.length }}
{{ s.response|truncate(200) }}
{% else %}nothing yet{% endfor %}
Score: {{ (steps[0].score * 100) // 3 }} {{ steps[-1]|tojson }} {{ 'rated' if steps[0].score is defined }}`)
	if err != nil {
		b.Fatal(err)
	}
	var steps []any
	for range 10 {
		steps = append(steps, map[string]any{"status": "success", "response": strings.Repeat("An answer of some length. ", 40), "score": 7})
	}
	list, err := template.From(steps)
	if err != nil {
		b.Fatal(err)
	}
	scope := template.Scope{"topic": template.Str("tea and time"), "steps": list}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Render(scope); err != nil {
			b.Fatal(err)
		}
	}
}
