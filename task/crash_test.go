package task_test

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
)

// TestMain is also where the processes begin that the crash tests kill.
func TestMain(m *testing.M) {
	crashtest.Main(map[string]crashtest.Work{"task": workOnTask})
	os.Exit(m.Run())
}

// A process works on a task with a plan, a tool that may run again and one that
// may not, an approval and a message that comes in between, and is killed: at
// any point at which the store writes, when the model has its question, when a
// tool begins and when it is done, when a person is asked. The next process
// takes the task up; some are killed as well. Whatever happened, nothing is
// asked or run that the log answers, and the task ends as if nothing had
// happened.
func TestCrash_sqlite(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: "sqlite"})
	plan := place.MustRehearse(t, &taskScenario)
	kills := plan.Kills()
	if !crashtest.Whole() {
		var some []crashtest.Kill
		for i, k := range kills {
			if k.Write == 0 || i%(1+len(kills)/7) == 0 {
				some = append(some, k)
			}
		}
		kills = some
	}
	tally := place.KillAll(t, crashtest.Cells(plan, kills), 29)
	t.Logf("%d kills of %d tasks", tally.Sum().Kills, len(kills))
	tally.Log(t, "killed at", nil, crashtest.Kills, crashtest.AskedAgain, crashtest.RanAgain, crashtest.OnceAgain, crashtest.Differences,
		crashtest.Lost, crashtest.Harmless, crashtest.Unknown)
}

// The same without processes: every write fails once.
func TestCrash_everyWriteFails(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: crashtest.Memory})
	calls := place.FailEveryWrite(t, &taskScenario, "Create", "Append", "Save")
	if calls["Append"] < 10 || calls["Save"] < 5 {
		t.Fatalf("too few writes: %v", calls)
	}
}
