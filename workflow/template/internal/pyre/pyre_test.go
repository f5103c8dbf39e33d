package pyre_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/template/internal/pyre"
)

// What Python finds is in the conformance table of the package above; here
// are the things a template cannot show.

func TestCompile_refusesWhatPythonRefusesOrWeCannotDo(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"(", ")", "[", "a**", "*", "(?P<n>a)(?P<n>b)", "(?P=n)", `\1`, `(a\1)`, `\q`, `\x4`, "[b-a]", `[a-\d]`,
		"(?<=a+)b", "a(?i)", "(?L)a", "(?(1)a|b)", `\N{DIGIT ONE}`, "(?P<1>a)", "a{2,1}", strings.Repeat("(", 200) + strings.Repeat(")", 200),
	} {
		if _, err := pyre.Compile(pattern, false); err == nil {
			t.Errorf("%q compiles", pattern)
		}
	}
}

func TestSearch_stopsWhenTheBudgetIsSpent(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"(a*)*$", "(a|aa)+$", "(?!(a|aa)+$)", "(?>(?:a|aa)+$)"} {
		re, err := pyre.Compile(pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		budget := 100_000
		if m, err := re.Search(strings.Repeat("a", 60)+"b c", &budget); !errors.Is(err, pyre.ErrBudget) {
			t.Errorf("%q: %v, %v", pattern, m, err)
		}
		if budget < 0 {
			t.Errorf("%q: budget overdrawn to %d", pattern, budget)
		}
	}
}

func TestSearch_longTextsDoNotNest(t *testing.T) {
	t.Parallel()
	re, err := pyre.Compile(`(?s)^.*?(\w+)[^a]*\Z`, false)
	if err != nil {
		t.Fatal(err)
	}
	budget := 10_000_000
	m, err := re.Search(strings.Repeat("-", 500_000)+"end", &budget)
	if err != nil || m == nil {
		t.Fatalf("%v, %v", m, err)
	}
	if group, ok := m.Group(1); !ok || group != "end" {
		t.Errorf("%q", group)
	}
}

func TestSearch_aGroupRepeatedTooOftenIsAnError(t *testing.T) {
	t.Parallel()
	re, err := pyre.Compile("(?:ab)*c", false)
	if err != nil {
		t.Fatal(err)
	}
	budget := 100_000_000
	if m, err := re.Search(strings.Repeat("ab", 200_000)+"c", &budget); !errors.Is(err, pyre.ErrBudget) {
		t.Errorf("%v, %v", m, err)
	}
}
