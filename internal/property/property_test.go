package property_test

import (
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/property"
)

// recorder is a test that notes what it is told.
type recorder struct {
	testing.TB
	said   []string
	failed bool
}

func (r *recorder) Helper()        {}
func (r *recorder) Log(a ...any)   { r.said = append(r.said, fmt.Sprint(a...)) }
func (r *recorder) Error(a ...any) { r.failed = true; r.Log(a...) }
func (r *recorder) Fatalf(format string, a ...any) {
	r.Error(fmt.Sprintf(format, a...))
	runtime.Goexit()
}

// check runs a property and returns what was said, and whether it failed.
func check(t *testing.T, p func(*property.T)) (string, bool) {
	r, done := &recorder{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		property.Check(r, p)
	}()
	<-done
	return strings.Join(r.said, "\n"), r.failed
}

func wantSaid(t *testing.T, said string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(said, line) {
			t.Errorf("%q is not in what was said:\n%s", line, said)
		}
	}
}

func TestCheck_reducesToTheSimplestInput(t *testing.T) {
	for name, c := range map[string]struct {
		property func(*property.T)
		shows    []string
	}{
		"a number": {func(t *property.T) {
			if n := property.Int64().Draw(t, "n"); n > 1000 {
				t.Errorf("%d is too much", n)
			}
		}, []string{"n: 1001", "1001 is too much"}},
		"a negative number": {func(t *property.T) {
			if property.IntRange(-500, 500).Draw(t, "n") < -7 {
				t.Fatal("below")
			}
		}, []string{"n: -8", "below"}},
		"a list": {func(t *property.T) {
			list := property.SliceOfN(property.IntRange(0, 1000), 0, 20).Draw(t, "list")
			if slices.ContainsFunc(list, func(n int) bool { return n >= 10 }) {
				t.FailNow()
			}
		}, []string{"list: []int{10}"}},
		"a text": {func(t *property.T) {
			if strings.Contains(property.StringOf("xyz", 0, 12).Draw(t, "text"), "z") {
				t.Fail()
			}
		}, []string{`text: "z"`}},
		"a panic": {func(t *property.T) {
			list := property.SliceOfN(property.Bool(), 0, 9).Draw(t, "list")
			if len(list) > 2 {
				past := len(list)
				_ = list[past]
			}
		}, []string{"list: []bool{false, false, false}", "index out of range", "property_test.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			said, failed := check(t, c.property)
			if !failed {
				t.Error("the property did not fail")
			}
			wantSaid(t, said, append(c.shows, "HOLDFAST_TEST_SEED=")...)
		})
	}
}

// A stack that forgets what is pushed while it holds three: three pushes, one
// that is lost and one pop show it, and no other operation need be there.
func TestCheck_leavesOutOperations(t *testing.T) {
	said, _ := check(t, func(t *property.T) {
		var stack, model []int
		for range t.Repeat(0, 40) {
			switch property.SampledFrom([]string{"look", "push", "pop"}).Draw(t, "operation") {
			case "push":
				n := property.IntRange(0, 9).Draw(t, "n")
				if model = append(model, n); len(stack) != 3 {
					stack = append(stack, n)
				}
			case "pop":
				if len(model) == 0 {
					continue
				}
				got, want := stack[len(stack)-1], model[len(model)-1]
				stack, model = stack[:len(stack)-1], model[:len(model)-1]
				if got != want {
					t.Fatalf("popped %d, want %d", got, want)
				}
			}
		}
	})
	operations := regexp.MustCompile(`operation: "(\w+)"`).FindAllStringSubmatch(said, -1)
	var names []string
	for _, o := range operations {
		names = append(names, o[1])
	}
	if got := strings.Join(names, " "); got != "push push push push pop" {
		t.Errorf("reduced to %s:\n%s", got, said)
	}
}

func TestCheck_aSeedRepeatsItsCase(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_REDUCE", "0s")
	rare := func(t *property.T) {
		if n := property.Uint64().Draw(t, "n"); n%5 == 3 {
			t.Errorf("found %d", n)
		}
	}
	first, _ := check(t, rare)
	seed := regexp.MustCompile(`HOLDFAST_TEST_SEED=(\d+) `).FindStringSubmatch(first)
	if seed == nil {
		t.Fatalf("no seed in:\n%s", first)
	}
	t.Setenv("HOLDFAST_TEST_SEED", seed[1])
	cases := 0
	again, _ := check(t, func(t *property.T) { cases++; rare(t) })
	if again != first || cases != 2 { // once to find it, once to show it
		t.Errorf("%d cases said\n%s\nafter\n%s", cases, again, first)
	}
}

func TestCheck_saysWhenAFailureDoesNotRepeat(t *testing.T) {
	failures := 0
	said, failed := check(t, func(t *property.T) {
		if failures++; failures == 1 {
			t.Error("only at first")
		}
	})
	if !failed {
		t.Error("a failure that does not repeat is none")
	}
	wantSaid(t, said, "only at first", "depends on more than its input")
}

func TestCheck_countsCasesThatWereNotSkipped(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_CASES", "30")
	tested, cleaned := 0, 0
	property.Check(t, func(t *property.T) {
		t.Cleanup(func() { cleaned++ })
		if property.Bool().Draw(t, "skip") {
			t.Skip("unlucky")
		}
		tested++
	})
	if tested != 30 || cleaned < tested {
		t.Errorf("tested %d cases and cleaned up after %d, want 30", tested, cleaned)
	}
	said, failed := check(t, func(t *property.T) { t.Skip() })
	if !failed {
		t.Error("a property that skips every case holds")
	}
	wantSaid(t, said, "only 0 were tested")
}

func TestCheck_badSettingsAreRefused(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_CASES", "many")
	said, failed := check(t, func(*property.T) {})
	if !failed {
		t.Error("many cases were accepted")
	}
	wantSaid(t, said, "HOLDFAST_TEST_CASES=many")
}

// Every generator stays in its limits and reaches both of them.
func TestGenerators_reachTheirLimitsAndKeepThem(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_CASES", "2000")
	seen := map[string]bool{}
	note := func(what string, ok bool) { seen[what] = seen[what] || ok }
	property.Check(t, func(t *property.T) {
		whole := func(what string, least, most int64) {
			n := property.Int64Range(least, most).Draw(t, what)
			if n < least || n > most {
				t.Errorf("%d is not %s", n, what)
			}
			note(what+": least", n == least)
			note(what+": most", n == most)
			note(what+": between", n > least && n < most)
		}
		whole("from 0 to 9", 0, 9)
		whole("from -3 to -1", -3, -1)
		whole("from -5 to 5", -5, 5)
		whole("any number", math.MinInt64, math.MaxInt64)
		f := property.Float64Range(-2, 7).Draw(t, "f")
		if !(f >= -2 && f <= 7) {
			t.Errorf("%v is not from -2 to 7", f)
		}
		note("a fraction", f != math.Trunc(f) && math.Abs(f) > 0.1)
		note("a whole number", f == math.Trunc(f))
		g := property.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "g")
		if math.IsNaN(g) || math.IsInf(g, 0) {
			t.Errorf("%v is not finite", g)
		}
		note("a tiny float", g != 0 && math.Abs(g) < 1e-100)
		note("a huge float", math.Abs(g) > 1e100)
		text := property.StringN(2, 5).Draw(t, "text")
		if n := utf8.RuneCountInString(text); n < 2 || n > 5 || !utf8.ValidString(text) {
			t.Errorf("%q is not a text of 2 to 5 runes", text)
		}
		note("plain text", text >= "A" && text <= "z")
		note("a zero byte", strings.Contains(text, "\x00"))
		note("four bytes", strings.ContainsFunc(text, func(r rune) bool { return r > 0xffff }))
		list := property.SliceOfN(property.Byte(), 1, 4).Draw(t, "list")
		note("a list of 1", len(list) == 1)
		note("a list of 4", len(list) == 4)
		different := property.DistinctOfN(property.IntRange(1, 3), 1, 3).Draw(t, "different")
		slices.Sort(different)
		if len(slices.Compact(different)) != len(different) || len(list) < 1 || len(list) > 4 {
			t.Errorf("%v, %v", different, list)
		}
		note("all that differ", len(different) == 3)
		keys := property.MapOfN(property.SampledFrom([]string{"a", "b"}), property.Bool(), 0, 4).Draw(t, "map")
		note("an empty map", len(keys) == 0)
		note("a map of all keys", len(keys) == 2)
	})
	for what := range seen {
		if !seen[what] {
			t.Errorf("never: %s", what)
		}
	}
}
