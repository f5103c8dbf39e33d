package holdfast_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

// The account of a crash has to see what must not happen, or it proves nothing.
func TestCrashAccount_seesEveryFault(t *testing.T) {
	t.Parallel()
	calls := func(ids ...string) map[string]bool {
		set := map[string]bool{}
		for _, id := range ids {
			set[id] = true
		}
		return set
	}
	first := []ask{{step: 1}, {step: 2}}
	half := durable{answers: 2, started: calls("find", "hold", "pay"), finished: calls("find", "hold")}
	for name, row := range map[string]struct {
		asks   []ask
		traces []trace
		found  durable // by the second process
		want   crashCounts
		fault  string // "" is none
	}{
		"nothing":                    {found: half},
		"a lost answer":              {found: durable{answers: 1}, asks: []ask{{life: 1, step: 2}}, want: crashCounts{lostAnswers: 1}},
		"an answer in the log":       {found: half, asks: []ask{{life: 1, step: 2}}, want: crashCounts{answersAgain: 1}, fault: "answer 2 was asked for again"},
		"an answer twice in a life":  {found: half, asks: []ask{{life: 1, step: 3}, {life: 1, step: 3}}, want: crashCounts{answersAgain: 1}, fault: "answer 3 was asked for again"},
		"two lost answers":           {asks: []ask{{life: 1, step: 1}, {life: 1, step: 2}}, want: crashCounts{lostAnswers: 2}, fault: "2 answers were lost"},
		"a harmless tool cut off":    {found: durable{answers: 1, started: calls("find", "hold")}, traces: []trace{{"began", "find", 1}}, want: crashCounts{harmlessAgain: 1}},
		"a finished tool":            {found: half, traces: []trace{{"began", "find", 1}}, want: crashCounts{finishedAgain: 1}, fault: "find ran again after its result"},
		"a tool twice in a life":     {found: durable{answers: 3}, traces: []trace{{"began", "check", 1}, {"began", "check", 1}}, want: crashCounts{finishedAgain: 1}, fault: "check ran again"},
		"a tool that runs once only": {found: half, traces: []trace{{"began", "pay", 1}}, want: crashCounts{onceAgain: 1}, fault: "pay ran again, which it must not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &crashRun{site: &crashSite{}, lives: []life{{}, {found: row.found}}}
			traces := append([]trace{{"began", "find", 0}, {"began", "hold", 0}, {"began", "pay", 0}}, row.traces...)
			var got crashCounts
			var faults []string
			for _, err := range slices.Concat(r.accountAsks(&got, 1, slices.Concat(first, row.asks)), r.accountTools(&got, 1, traces)) {
				faults = append(faults, err.Error())
			}
			if got != row.want {
				t.Errorf("counted %v\nwant %v", got, row.want)
			}
			if all := strings.Join(faults, "; "); (all != "") != (row.fault != "") || !strings.Contains(all, row.fault) {
				t.Errorf("faults %q, want %q", all, row.fault)
			}
		})
	}
}

// What is sent after a crash is compared with what is sent without one.
func TestCrashAccount_seesAnotherRequest(t *testing.T) {
	t.Parallel()
	r := &crashRun{site: &crashSite{bodies: map[int]string{3: "as ever"}}, lives: []life{{}, {told: map[string]bool{"pay": true}}}}
	for body, good := range map[string][2]bool{ // in the first life, and in the second
		"as ever":                         {true, false},
		"something else":                  {false, false},
		"it is " + session.UnknownOutcome: {false, true},
	} {
		for life, want := range good {
			if err := r.sameRequest(ask{life: life, step: 3, body: body}); (err == nil) != want {
				t.Errorf("%q in life %d: %v", body, life, err)
			}
		}
	}
}
