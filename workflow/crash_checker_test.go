package workflow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The account sees every fault it is there to see.
func TestCrashAccount_seesEveryFault(t *testing.T) {
	t.Parallel()
	knew := func(answered, finished string) found {
		f := found{map[string]bool{}, map[string]bool{}}
		f.answered[answered], f.finished[finished] = true, true
		return f
	}
	tests := []struct {
		name   string
		asks   []ask
		traces string
		want   string
	}{
		{name: "none", asks: []ask{{0, "a", "s"}, {0, "b", "s"}, {1, "b", "s"}}, traces: "began c 0\nended c 0\nbegan d 1\nended d 1\n"},
		{name: "a repeated call", asks: []ask{{0, "a", "s"}, {1, "a", "s"}, {1, "b", "s"}}, want: "which the log answers"},
		{name: "a call made twice", asks: []ask{{0, "a", "s"}, {1, "b", "s"}, {1, "b", "s"}}, want: "asked for b twice"},
		{name: "another system prompt", asks: []ask{{0, "a", "s"}, {0, "b", "s"}, {1, "b", "other"}}, want: `with "s" and with "other"`},
		{name: "a call too many", asks: []ask{{0, "a", "s"}, {1, "b", "s"}, {1, "c", "s"}}, want: "c is asked for by no undisturbed run"},
		{name: "a call too few", asks: []ask{{0, "a", "s"}}, want: "b was never asked for"},
		{name: "a tool that ran again", asks: []ask{{0, "a", "s"}, {1, "b", "s"}}, traces: "began c 0\nended c 0\nbegan c 1\n", want: "ran c, whose result is in the log"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, effectsFile), []byte(tt.traces), 0o600); err != nil {
				t.Fatal(err)
			}
			r := &crashRun{
				plan: &crashPlan{keys: map[string]bool{"a": true, "b": true}}, job: crashJob{Dir: dir}, asks: tt.asks,
				lives: []found{knew("", ""), knew("a", "c")},
			}
			c, err := r.account()
			switch {
			case tt.want == "" && (err != nil || c.repeats+c.differences > 0):
				t.Errorf("%+v, %v, want no fault", c, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || c.repeats+c.differences == 0):
				t.Errorf("%+v, %v, want %q", c, err, tt.want)
			}
		})
	}
}

// An ending that is not the same is seen, whatever is different.
func TestCrashAccount_seesAnotherEnding(t *testing.T) {
	t.Parallel()
	whole := func() ending {
		return ending{"state", map[string]string{"step/0": "said"}, "ledger", "note\n", map[string]string{"/a": "text"}}
	}
	if faults := whole().differ(whole()); faults != nil {
		t.Errorf("the same is not the same: %v", faults)
	}
	for what, change := range map[string]func(*ending){
		"state":      func(e *ending) { e.state += "!" },
		"message":    func(e *ending) { e.transcript["step/0"] += "said\n" },
		"no unit":    func(e *ending) { delete(e.transcript, "step/0") },
		"ledger":     func(e *ending) { e.ledger += "!" },
		"note twice": func(e *ending) { e.notes += "note\n" },
		"no file":    func(e *ending) { delete(e.artifacts, "/a") },
		"more files": func(e *ending) { e.artifacts["/.tmp"] = "half" },
	} {
		other := whole()
		if change(&other); other.differ(whole()) == nil {
			t.Errorf("%s: not seen", what)
		}
	}
}
