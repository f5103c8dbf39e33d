package template

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// What Python finds is in the conformance table; here are the things a
// template cannot show.

func TestCompilePattern_refusesWhatPythonRefusesOrWeCannotDo(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"(", ")", "[", "a**", "*", "(?P<n>a)(?P<n>b)", "(?P=n)", `\1`, `(a\1)`, `\q`, `\x4`, "[b-a]", `[a-\d]`,
		"(?<=a+)b", "a(?i)", "(?L)a", "(?(1)a|b)", `\N{DIGIT ONE}`, "(?P<1>a)", "a{2,1}", strings.Repeat("(", 200) + strings.Repeat(")", 200),
		"^*", `\b+`, "a*+*", "[a", `a\`, `[\9]`, `\400`, "(?#a", "(?i", "(?au)a", "(?i-i:a)", "(a)(?P<>b)", strings.Repeat("a", 10_001),
	} {
		if _, err := compilePattern(pattern, false); err == nil {
			t.Errorf("%q compiles", pattern)
		}
	}
}

// Cases that regexp2 alone gets wrong, or does not know, and what Python finds.
func TestSearchPattern_findsWhatPythonFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, text, want string }{
		{"a?.", "ax\n1", "ax"},
		{"[ab]??[^x]+", "ay", "ay"},
		{`(?:\w++){2}-`, "bcd-", ""},
		{`(?:.*+)?\S`, "]1", "]"},
		{"a(?#c)*b", "aab", "aab"},
		{"(?P<n>a)(?P=n)0", "aa0", "aa0"},
		{"(a)(?P<n>b)(c)\\2", "abcb", "abcb"},
		{`end\Z`, "end\n", ""},
		{"end$", "end\n", "end"},
		{`[^\W\d]+`, "12é_3", "é_"},
		{`[a\S]+`, " \u0301x ", "\u0301x"},
		{`\w`, "\u0301", ""},
		{`\s`, "\x1c", "\x1c"},
		{"(?ai)k", "\u212a", ""},
		{"(?ai)[j-l]", "K", "K"},
		{"(?x) a b # c", "ab", "ab"},
		{"x{,2}{", "xx{", "xx{"},
		{`\141[\101]`, "aA", "aA"},
		{`[]\-a-]+`, "x]-a", "]-a"},
	} {
		re, err := compilePattern(c.pattern, false)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		left := time.Minute
		m, err := searchPattern(re, c.text, &left)
		got := ""
		if m != nil {
			got = m.String()
		}
		if err != nil || got != c.want {
			t.Errorf("%q in %q: %q, %v, want %q", c.pattern, c.text, got, err, c.want)
		}
	}
}

func TestSearchPattern_stopsWhenTheTimeIsUsedUp(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", 60) + "b c"
	for _, pattern := range []string{"(a*)*$", "(a|aa)+$", "(?!(a|aa)+$)", "(?>(?:a|aa)+$)"} {
		re, err := compilePattern(pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		left := time.Millisecond
		for range 2 { // the second search has no time left
			if m, err := searchPattern(re, text, &left); !errors.Is(err, errSlowPattern) || strings.Contains(err.Error(), "aaa") {
				t.Errorf("%q: %v, %v", pattern, m, err)
			}
		}
	}
}

func TestSearchPattern_longTexts(t *testing.T) {
	t.Parallel()
	re, err := compilePattern(`(?s)^.*?(\w+)[^a]*\Z`, false)
	if err != nil {
		t.Fatal(err)
	}
	left := time.Minute
	m, err := searchPattern(re, strings.Repeat("-", 500_000)+"end", &left)
	if err != nil || m == nil {
		t.Fatalf("%v, %v", m, err)
	}
	if group := m.GroupByNumber(firstGroup).String(); group != "end" {
		t.Errorf("%q", group)
	}
}

func TestSearchPattern_aGroupRepeatedTooOftenIsAnError(t *testing.T) {
	t.Parallel()
	re, err := compilePattern("(?:ab)*c", false)
	if err != nil {
		t.Fatal(err)
	}
	left := time.Minute
	if m, err := searchPattern(re, strings.Repeat("ab", 200_000)+"c", &left); !errors.Is(err, errSlowPattern) {
		t.Errorf("%v, %v", m, err)
	}
}
