package holdfast_test

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// TestMain is also where the processes begin that the crash tests kill.
func TestMain(m *testing.M) {
	crashtest.Main(map[string]crashtest.Work{"turn": workOnTurn, "wait": workOnWaitingTurn})
	goleak.VerifyTestMain(m)
}

// A process works on a turn of four model calls and five tool calls and is
// killed at every point at which the store writes, at every moment of a model
// call and of a tool call, and at random moments. The next process takes the
// turn up. Whatever happened, the model is never asked again for an answer that
// is in the log, no tool runs again whose result is, and the session ends as if
// nothing had happened.

func TestCrash_sqlite(t *testing.T)   { crashTurns(t, "sqlite", "openai", 1, 60) }
func TestCrash_file(t *testing.T)     { crashTurns(t, "file", "anthropic", 6, 12) }
func TestCrash_postgres(t *testing.T) { crashTurns(t, "postgres", "anthropic", 2, 12) }

// crashTurns kills processes on one store: at one of every so many moments,
// and at so many random ones.
func crashTurns(t *testing.T, name, protocol string, every, kills int) {
	t.Parallel()
	config := crashtest.Config{Store: name, Protocol: protocol, Together: 4}
	if name == "postgres" {
		config.Lease, config.Together = 2*time.Second, 8 // nobody knows that the holder is dead: its lease has to end
	}
	place := crashtest.NewPlace(t, config)
	plan := place.MustRehearse(t, turnScenario(name, protocol))
	if reply := plan.Undisturbed.Last.State.(session.Session).Reply(); reply != "All is booked." {
		t.Fatalf("the undisturbed turn ends with %q", reply)
	}
	if asked := crashtest.RandomKills(); asked > 0 {
		every, kills = 1, asked
	}
	log := func(t *testing.T, l *crashtest.Tally) {
		t.Helper()
		l.Log(t, name+", killed at", nil, crashtest.Kills, crashtest.AskedAgain, crashtest.RanAgain, crashtest.OnceAgain,
			crashtest.Lost, crashtest.Harmless, crashtest.Unknown, crashtest.HeldAnswers)
	}
	t.Run("at every moment", func(t *testing.T) {
		t.Parallel()
		all := plan.Kills()
		if len(all) < 40 {
			t.Fatalf("a turn has only %d moments: %v", len(all), plan.Points)
		}
		log(t, place.KillAll(t, crashtest.Cells(plan, crashtest.Every(every, all)), 0))
	})
	t.Run("at random moments", func(t *testing.T) { t.Parallel(); log(t, plan.KillAtRandom(t, kills)) })
	for _, how := range []takeUp{onlyContinue, onlyRecover} {
		t.Run("two at once "+string(how), func(t *testing.T) { t.Parallel(); takeUpTwice(t, plan, how) })
	}
}

// takeUpTwice lets two processes take up an interrupted turn at the same time.
func takeUpTwice(t *testing.T, plan *crashtest.Plan, how takeUp) {
	r, err := plan.NewRun(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if killed, err := r.Live(t.Context(), crashtest.Kill{Request: answerKey(2)}); err != nil || killed == "" {
		t.Fatalf("killed by %q, %v", killed, err)
	}
	waitUntilFree(t, r)
	job := r.Job.(turnJob)
	job.TakeUp = how
	r.Job = job
	if err := r.TakeUpTwice(t.Context()); err != nil {
		t.Error(err)
	}
	wantOneLost(t, r)
}

// wantOneLost fails unless one answer was asked for twice: the one that was
// under way when the first process was killed or stopped.
func wantOneLost(t *testing.T, r *crashtest.Run) {
	t.Helper()
	if c, err := r.Account(); err != nil || c.Lost != 1 {
		t.Errorf("%+v, %v: want one answer asked for again", c, err)
	}
}

// waitUntilFree waits until nobody holds the session any more: on some stores
// the lease of a dead process has to run out.
func waitUntilFree(t *testing.T, r *crashtest.Run) {
	t.Helper()
	st, err := crashtest.Open(t.Context(), r.Store, r.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		free, err := st.(store.Tails).Interrupted(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(free, func(f store.Ref) bool { return f.ID == r.ID }) {
			return
		}
		<-tick.C
	}
}
