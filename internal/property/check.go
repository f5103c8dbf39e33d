// Package property tests properties: statements that hold for all inputs. Check
// runs a property with random inputs; if one fails, it looks for the simplest
// failing input and prints it with the seed that repeats it.
//
// All inputs come from a list of choices: numbers, where a smaller one means a
// simpler input. So one reduction works for all inputs, and for the operations
// of a state machine too: leave out choices, or make them smaller.
//
// Environment variables:
//
//	HOLDFAST_TEST_SEED=n      start with the case of this seed (default: random)
//	HOLDFAST_TEST_CASES=n     this many cases for every property (default: 100)
//	HOLDFAST_TEST_REDUCE=10s  how long to look for a simpler input (default: 10s)
package property

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"
)

// T is the test of one case: a failure fails the case, a skip discards it. Only
// the goroutine of the property may use it.
type T struct {
	testing.TB
	random   *rand.Rand // for choices beyond the given ones; nil: choose the simplest
	given    []uint64
	made     []uint64
	loud     bool // pass on what is logged, and log what is drawn
	drawing  int  // generators within generators
	failed   bool
	skipped  bool
	messages []string
	cleanups []func()
}

// stopped is the panic that ends a case.
type stopped struct{}

// choose makes the next choice, from 0 to most.
func (t *T) choose(most uint64, pick func(*rand.Rand) uint64) uint64 {
	var v uint64
	switch n := len(t.made); {
	case n < len(t.given):
		v = min(t.given[n], most)
	case t.random != nil:
		v = pick(t.random)
	}
	t.made = append(t.made, v)
	return v
}

// Check fails the test unless the property holds for every case.
func Check(t testing.TB, property func(*T)) {
	t.Helper()
	CheckCases(t, 100, property)
}

// CheckCases is Check with another number of cases, for properties that are slow
// to test. HOLDFAST_TEST_CASES counts for these too.
func CheckCases(t testing.TB, cases int, property func(*T)) {
	t.Helper()
	cases, discarded := setting(t, "HOLDFAST_TEST_CASES", strconv.Atoi, cases), 0
	seed := setting(t, "HOLDFAST_TEST_SEED", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }, rand.Uint64())
	for n := 0; n < cases; seed++ {
		c := &T{TB: t, random: rand.New(rand.NewPCG(seed, 0))}
		c.run(property)
		switch {
		case c.failed:
			explain(t, property, seed, c)
			return
		case !c.skipped:
			n++
		default:
			if discarded++; discarded > 20*cases {
				t.Fatalf("%d cases were discarded and only %d were tested: draw inputs that need no skip", discarded, n)
			}
		}
	}
}

// setting reads an environment variable.
func setting[V any](t testing.TB, name string, parse func(string) (V, error), otherwise V) V {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return v
}

// explain reduces a failed case, repeats it and prints it.
func explain(t testing.TB, property func(*T), seed uint64, c *T) {
	t.Helper()
	end := time.Now().Add(setting(t, "HOLDFAST_TEST_REDUCE", time.ParseDuration, 10*time.Second))
	simple := reduce(c.made, func(choices []uint64) ([]uint64, bool) {
		if time.Now().After(end) {
			return nil, false
		}
		again := &T{TB: t, given: choices}
		again.run(property)
		return again.made, again.failed
	})
	last := &T{TB: t, given: simple, loud: true}
	last.run(property)
	repeat := fmt.Sprintf("HOLDFAST_TEST_SEED=%d go test -run '^%s$'", seed, t.Name())
	if !last.failed {
		t.Fatalf("the property failed, but not when it was repeated: it depends on more than its input. At first: %q\nrepeat: %s", c.messages, repeat)
	}
	t.Fatalf("the property failed for the input above, reduced from %d choices to %d\nrepeat: %s", len(c.made), len(simple), repeat)
}

func (t *T) run(property func(*T)) {
	defer func() {
		for _, f := range slices.Backward(t.cleanups) {
			f()
		}
	}()
	defer func() {
		switch v := recover().(type) {
		case nil, stopped:
		default:
			t.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	property(t)
}

// reduce returns the simplest choices it finds for which try fails. Try returns
// the choices that were really made.
func reduce(choices []uint64, try func([]uint64) ([]uint64, bool)) []uint64 {
	better := func(candidate []uint64) bool {
		made, failed := try(candidate)
		if !failed || len(made) > len(choices) || len(made) == len(choices) && slices.Compare(made, choices) >= 0 {
			return false
		}
		choices = made
		return true
	}
	for progress := true; progress; {
		progress = false
		for size := len(choices); size > 0; size = min(size-1, max(size/2, 8)) { // 8: about an operation
			for at := 0; at+size <= len(choices); {
				if better(slices.Delete(slices.Clone(choices), at, at+size)) {
					progress = true
				} else {
					at += max(1, size/8)
				}
			}
		}
		for i := 0; i < len(choices); i++ {
			for less := choices[i]; less > 0; {
				candidate := slices.Clone(choices)
				candidate[i] -= less
				if !better(candidate) {
					less /= 2
					continue
				}
				progress = true
				if i >= len(choices) {
					break
				}
				less = min(less, choices[i])
			}
		}
	}
	return choices
}

func (t *T) fail(text string) {
	t.Helper()
	t.failed = true
	t.messages = append(t.messages, text)
	if t.loud {
		t.TB.Error(text)
	}
}

// Failed reports whether the case has failed.
func (t *T) Failed() bool { return t.failed }

// Fail fails the case.
func (t *T) Fail() { t.Helper(); t.fail("failed") }

// Error fails the case.
func (t *T) Error(args ...any) { t.Helper(); t.fail(fmt.Sprint(args...)) }

// Errorf fails the case.
func (t *T) Errorf(format string, args ...any) { t.Helper(); t.fail(fmt.Sprintf(format, args...)) }

// FailNow fails and ends the case.
func (t *T) FailNow() { t.Helper(); t.Fatal("failed") }

// Fatal fails and ends the case.
func (t *T) Fatal(args ...any) { t.Helper(); t.fail(fmt.Sprint(args...)); panic(stopped{}) }

// Fatalf fails and ends the case.
func (t *T) Fatalf(format string, args ...any) { t.Helper(); t.Fatal(fmt.Sprintf(format, args...)) }

// SkipNow ends the case and does not count it.
func (t *T) SkipNow() { t.skipped = true; panic(stopped{}) }

// Skip ends the case and does not count it.
func (t *T) Skip(...any) { t.SkipNow() }

// Skipf ends the case and does not count it.
func (t *T) Skipf(string, ...any) { t.SkipNow() }

// Skipped reports whether the case was skipped.
func (t *T) Skipped() bool { return t.skipped }

// Cleanup runs f when the case is over.
func (t *T) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// Log logs for the case that is shown.
func (t *T) Log(args ...any) {
	t.Helper()
	if t.loud {
		t.TB.Log(args...)
	}
}

// Logf logs for the case that is shown.
func (t *T) Logf(format string, args ...any) { t.Helper(); t.Log(fmt.Sprintf(format, args...)) }
