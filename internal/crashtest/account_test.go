package crashtest

import (
	"errors"
	"strings"
	"testing"
)

func set(keys ...string) map[string]bool {
	s := map[string]bool{}
	for _, key := range keys {
		s[key] = true
	}
	return s
}

// The account of a crash has to see what must not happen, or it proves nothing.
// A first process asked for a and b and ran find and pay; of what the second
// one finds and does depends what is wrong.
func TestAccount_seesEveryFault(t *testing.T) {
	t.Parallel()
	first := []Effect{
		{What: Asked, Key: "a", Detail: "s"}, {What: Asked, Key: "b", Detail: "s"},
		{What: Began, Key: "find"}, {What: Ended, Key: "find"}, {What: Began, Key: "pay"},
	}
	ran := func(key string) []Effect {
		return []Effect{{What: Began, Key: key, Life: 1}, {What: Ended, Key: key, Life: 1}}
	}
	asked := func(key, detail string) []Effect { return []Effect{{What: Asked, Key: key, Detail: detail, Life: 1}} }
	half := Found{Answers: set("a", "b"), Started: set("find", "pay"), Results: set("find")}
	end := Found{Answers: set("a", "b"), Started: set("find", "pay"), Results: set("find", "pay")}
	for name, c := range map[string]struct {
		effects []Effect
		found   Found // by the second process
		end     *Found
		want    Counts
		fault   string // empty: none
	}{
		"nothing":                     {found: half, want: Counts{Unknown: 1}},
		"a lost answer":               {effects: asked("b", "s"), found: Found{Answers: set("a")}, want: Counts{Lost: 1}},
		"a harmless tool cut off":     {effects: ran("find"), found: Found{Answers: set("a", "b")}, want: Counts{Harmless: 1}},
		"an answer in the log":        {effects: asked("b", "s"), found: half, want: Counts{AskedAgain: 1, Unknown: 1}, fault: "asked for b, which the log answers"},
		"an answer twice":             {effects: append(asked("b", "s"), asked("b", "s")...), want: Counts{Lost: 1, AskedAgain: 1}, fault: "asked for b twice"},
		"two lost answers":            {effects: append(asked("a", "s"), asked("b", "s")...), want: Counts{Lost: 2, Differences: 1}, fault: "2 answers that one crash lost"},
		"another system prompt":       {effects: asked("b", "other"), want: Counts{Lost: 1, Differences: 1}, fault: `with "s" and with "other"`},
		"a finished tool":             {effects: ran("find"), found: half, want: Counts{RanAgain: 1, Unknown: 1}, fault: "ran find, whose result is in the log"},
		"a tool twice in a process":   {effects: append(ran("find"), ran("find")...), want: Counts{Harmless: 1, RanAgain: 1}, fault: "ran find twice"},
		"a tool that runs once":       {effects: ran("pay"), want: Counts{OnceAgain: 1}, fault: "ran pay again, which must run once"},
		"a tool of unknown outcome":   {effects: ran("pay"), found: half, want: Counts{OnceAgain: 1, Unknown: 1}, fault: "ran pay again, which must run once"},
		"an answer too many":          {effects: asked("c", "s"), found: half, end: &Found{Answers: set("a", "b", "c")}, want: Counts{Unknown: 1, Differences: 1}, fault: "c is asked for by no undisturbed run"},
		"a tool too many":             {effects: ran("post"), found: half, want: Counts{Unknown: 1, Differences: 1}, fault: "post is run by no undisturbed run"},
		"an answer that is lost":      {found: half, end: &Found{Answers: set("a")}, want: Counts{Unknown: 1, Differences: 1}, fault: "b was asked for, and the log has no answer"},
		"a result that nobody made":   {found: half, end: &Found{Answers: set("a", "b"), Results: set("find", "post")}, want: Counts{Unknown: 1, Differences: 1}, fault: "post has a result and never ran"},
		"a result of a call cut off":  {end: &end, want: Counts{Differences: 1}, fault: "pay has a result and never ran to its end"},
		"an outcome told as unknown":  {end: &Found{Answers: set("a", "b"), Results: set("find", "pay"), Unknown: set("pay")}, want: Counts{Unknown: 1}},
		"a fault of the scenario":     {found: half, end: &Found{Answers: set("a", "b"), State: "odd"}, want: Counts{Unknown: 1, Differences: 1}, fault: "the state is odd"},
		"an end that is another":      {found: half, end: &Found{Answers: set("a", "b"), State: "other"}, want: Counts{Unknown: 1, Differences: 1}, fault: "the end differs"},
		"the crash of another answer": {effects: asked("a", "s"), found: Found{Answers: set("b")}, want: Counts{Lost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, append(first[:len(first):len(first)], c.effects...), c.found, c.end, c.want, c.fault)
		})
	}
}

func check(t *testing.T, effects []Effect, found Found, end *Found, want Counts, fault string) {
	t.Helper()
	if end == nil {
		end = &Found{Answers: set("a", "b"), Results: set("find")}
	}
	text := func(r *Run) string { s, _ := r.Last.State.(string); return s }
	s := &Scenario{
		MostLost: 1, Once: func(call string) bool { return call == "pay" },
		Check: func(r *Run) []error {
			if text(r) == "odd" {
				return []error{errors.New("the state is odd")}
			}
			return nil
		},
		CheckEnd: func(r, _ *Run) []error {
			if text(r) == "other" {
				return Parts{"the end": "one\ntwo\n"}.Differ(Parts{"the end": "one\n"})
			}
			return []error{nil} // is no fault
		},
	}
	p := &Plan{Scenario: s, asked: set("a", "b"), began: set("find", "pay"), Undisturbed: &Run{}}
	r := &Run{plan: p, Dir: t.TempDir(), Lives: []Found{{}}, Last: found}
	r.begin()
	r.Last = *end
	for _, e := range effects {
		if err := journalIn(r.Dir).add(e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.Account()
	if got.AskedAgain != want.AskedAgain || got.RanAgain != want.RanAgain || got.OnceAgain != want.OnceAgain || got.Differences != want.Differences ||
		got.Lost != want.Lost || got.Harmless != want.Harmless || got.Unknown != want.Unknown {
		t.Errorf("counted %+v\nwant %+v", got, want)
	}
	if (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), fault) {
		t.Errorf("faults %v, want %q", err, fault)
	}
}

// What an undisturbed run does and a crashed one does not is seen.
func TestAccount_seesWhatIsMissing(t *testing.T) {
	t.Parallel()
	nothing := func(*Run, *Run) []error { return nil }
	p := &Plan{Scenario: &Scenario{CheckEnd: nothing}, asked: set("a"), began: set("find"), Undisturbed: &Run{}}
	_, err := (&Run{plan: p, Dir: t.TempDir(), Lives: []Found{{}}}).Account()
	for _, want := range []string{"a was never asked for", "find was never run"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it sees %v, want %q", err, want)
		}
	}
}

// An end that is not the same is seen, whatever is different.
func TestDiffer_seesEveryDifference(t *testing.T) {
	t.Parallel()
	whole := func() Parts { return Parts{"the notes": "note\n", "a file": ""} }
	if faults := whole().Differ(whole()); faults != nil {
		t.Errorf("the same is not the same: %v", faults)
	}
	for name, change := range map[string]func(Parts){
		"a line more":  func(p Parts) { p["the notes"] += "more\n" },
		"a line twice": func(p Parts) { p["the notes"] += "note\n" },
		"a part less":  func(p Parts) { delete(p, "a file") },
		"a part more":  func(p Parts) { p["another file"] = "" },
	} {
		other := whole()
		if change(other); other.Differ(whole()) == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}
