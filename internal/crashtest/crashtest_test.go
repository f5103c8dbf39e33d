package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func TestMain(m *testing.M) {
	crashtest.Main(map[string]crashtest.Work{"letter": writeLetter})
	os.Exit(m.Run())
}

// A letter is work with a log of its own, a file with one line for each fact:
// two answers of a model, a tool call that may run again and one that may not.
// Its processes keep the promises, or break one.

// letterJob says which promise is broken, if any.
type letterJob struct{ Broken string }

// letterLog is the log of a letter.
type letterLog struct {
	*crashtest.Worker
	broken string
	lines  []string
}

func (l *letterLog) has(line string) bool { return slices.Contains(l.lines, line) }

// write adds a line, with a write point on either side.
func (l *letterLog) write(line string) error {
	l.Write("before " + line)
	l.lines = append(l.lines, line)
	// Two processes may write at the same time: each has a file of its own.
	written := filepath.Join(l.Dir, fmt.Sprintf("log.%d", os.Getpid()))
	err := os.WriteFile(written, []byte(strings.Join(l.lines, "\n")), 0o600)
	if err == nil {
		err = os.Rename(written, filepath.Join(l.Dir, "log"))
	}
	l.Write("after " + line)
	return err
}

// ask asks for an answer, unless the log has it.
func (l *letterLog) ask(key string) error {
	if l.has("answer "+key) && l.broken != "asks again" {
		return nil
	}
	if err := l.Asked(key); err != nil {
		return err
	}
	if l.has("answer "+key) || l.broken == "loses an answer" && key == "second" {
		return nil
	}
	return l.write("answer " + key)
}

// run runs a tool call, unless the log has its result or it must not run again.
func (l *letterLog) run(call string, once bool) error {
	if l.has("result " + call) {
		if l.broken == "runs again" {
			return l.Began(call)
		}
		return nil
	}
	started := l.has("started " + call)
	if started && once && l.broken != "runs twice" {
		return l.write("result " + call)
	}
	if !started {
		if err := l.write("started " + call); err != nil {
			return err
		}
	}
	if l.broken == "never runs" {
		return l.write("result " + call)
	}
	return errors.Join(l.Began(call), l.Ended(call), l.write("result "+call))
}

func readLog(dir string) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Split(string(raw), "\n"), err
}

func writeLetter(_ context.Context, w *crashtest.Worker) error {
	var j letterJob
	if err := w.Job(&j); err != nil {
		return err
	}
	lines, err := readLog(w.Dir)
	if err != nil {
		return err
	}
	l := &letterLog{Worker: w, broken: j.Broken, lines: lines}
	if w.Life == 0 && (j.Broken != "differs" && j.Broken != "asks again") {
		l.broken = "" // what is wrong comes with the crash
	}
	if j.Broken == "is busy" && w.Life > 0 {
		return session.ErrBusy
	}
	if j.Broken == "warns" && w.Life > 0 {
		w.Problem("something is odd")
	}
	for _, step := range []func() error{
		func() error { return l.ask("first") },
		func() error { return l.run("look", false) },
		func() error { return l.ask("second") },
		func() error { return l.run("pay", true) },
		func() error {
			if l.has("end") {
				return nil
			}
			if l.broken == "differs" && w.Life > 0 {
				return l.write("another end")
			}
			return l.write("end")
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// letters is the scenario, with a promise broken or none.
func letters(broken string) *crashtest.Scenario {
	return &crashtest.Scenario{
		Name: "letter", Row: "letter", Work: writeLetter, MostLost: 1,
		Prepare: func(context.Context, *crashtest.Run, store.Store) (any, error) { return letterJob{broken}, nil },
		Load: func(_ context.Context, r *crashtest.Run, _ store.Store) (crashtest.Found, error) {
			lines, err := readLog(r.Dir)
			f := crashtest.Found{Answers: map[string]bool{}, Started: map[string]bool{}, Results: map[string]bool{}, State: strings.Join(lines, "\n")}
			for _, line := range lines {
				kind, key, _ := strings.Cut(line, " ")
				if set := map[string]map[string]bool{"answer": f.Answers, "started": f.Started, "result": f.Results}[kind]; set != nil {
					set[key] = true
				}
			}
			return f, err
		},
		Once: func(call string) bool { return call == "pay" },
		CheckEnd: func(r, undisturbed *crashtest.Run) []error {
			return crashtest.Parts{"the letter": fmt.Sprint(r.Last.State)}.Differ(crashtest.Parts{"the letter": fmt.Sprint(undisturbed.Last.State)})
		},
	}
}

// Processes that keep the promises pass, killed at every point and at random.
func TestKillAll_aSoundScenarioPasses(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: "file"})
	plan := place.MustRehearse(t, letters(""))
	kills := plan.Kills()
	if len(kills) != 20 { // 7 lines with two write points each, 2 requests, and begin and end of 2 calls
		t.Fatalf("%d moments: %v", len(kills), plan.Points)
	}
	tally := place.KillAll(t, crashtest.Cells(plan, kills), 5)
	c := tally.Sum()
	if c.Kills < 20 || c.Lost == 0 || c.Unknown == 0 || c.AskedAgain+c.RanAgain+c.OnceAgain+c.Differences > 0 {
		t.Errorf("%+v", c)
	}
	tally.Log(t, "killed at", nil, crashtest.Kills, crashtest.Lost)
	if c := plan.KillAtRandom(t, 3).Sum(); c.Kills < 3 {
		t.Errorf("%d random kills", c.Kills)
	}
}

// Each check of the harness fails where its promise is broken.
func TestAccount_seesProcessesThatBreakAPromise(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: "file"})
	for broken, c := range map[string]struct {
		at, want string
	}{
		"asks again":      {"request received: second", "asked for first, which the log answers"},
		"loses an answer": {"request received: second", "second was asked for, and the log has no answer in the end"},
		"runs again":      {"request received: second", "ran look, whose result is in the log"},
		"runs twice":      {"tool began: pay", "ran pay again, which must run once"},
		"never runs":      {"request received: first", "look was never run"},
		"differs":         {"request received: second", "the letter differs"},
		"is busy":         {"request received: second", "found the work busy"},
		"warns":           {"request received: second", "something is odd"},
	} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			r, err := place.MustRehearse(t, letters(broken)).NewRun(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Through(t.Context(), crashtest.Kill{At: c.at}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it sees %v, want %q", err, c.want)
			}
		})
	}
}

// Two processes at once that both work are seen.
func TestTakeUpTwice_wantsOneToBeBusy(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: "file"})
	r, err := place.MustRehearse(t, letters("")).NewRun(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.TakeUpTwice(t.Context()); err == nil || !strings.Contains(err.Error(), "was not told that the work is busy") {
		t.Errorf("it sees %v", err)
	}
}
