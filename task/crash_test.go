package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

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
	undisturbed := &crashTask{dir: t.TempDir()}
	if killed, err := undisturbed.live(t.Context(), crashJob{Record: true}); err != nil || killed {
		t.Fatalf("undisturbed: killed %t, %v", killed, err)
	}
	if err := undisturbed.account(nil); err != nil {
		t.Fatalf("undisturbed: %v", err)
	}
	deaths, err := undisturbed.deaths()
	if err != nil {
		t.Fatal(err)
	}
	if !crashAll() {
		var some []crashJob
		for i, j := range deaths {
			if j.DieAt != "" || i%(1+len(deaths)/7) == 0 {
				some = append(some, j)
			}
		}
		deaths = some
	}
	var mu sync.Mutex // guards kills
	kills := 0
	slots := make(chan struct{}, 3)
	var wg sync.WaitGroup
	for i, j := range deaths {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			again := 0
			if i%4 == 0 {
				again = 1 + i%29
			}
			one := &crashTask{dir: t.TempDir()}
			err := one.dieAt(t.Context(), j, again)
			if err == nil {
				err = one.account(&undisturbed.end)
			}
			mu.Lock()
			defer mu.Unlock()
			kills += one.kills
			if err != nil {
				t.Errorf("killed at %s%d, then at %d: %v", j.DieAt, j.DieWrite, again, err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d kills of %d tasks", kills, len(deaths))
	if kills < len(deaths)*9/10 { // a write in the background may not come
		t.Errorf("%d kills of %d tasks", kills, len(deaths))
	}
}

// crashAll reports that every moment is wanted, not a sample.
func crashAll() bool { return flag.Lookup(crashWhole).Value.String() == "true" }

// crashTask is one task, worked on by processes of which all but the last are
// killed.
type crashTask struct {
	dir   string
	lives []crashFound // what each process found
	end   crashFound   // what the last one left
	kills int
}

// deaths are all moments of a task, in order.
func (c *crashTask) deaths() ([]crashJob, error) {
	lines, err := crashLines(c.dir)
	var all []crashJob
	writes := 0
	for _, l := range lines {
		switch l.what {
		case "write":
			writes++
			all = append(all, crashJob{DieWrite: writes})
		case "moment":
			all = append(all, crashJob{DieAt: l.key})
		}
	}
	return all, err
}

// dieAt kills a process at one moment, the next at its write of that number
// (0: it lives), and lets the last one finish.
func (c *crashTask) dieAt(ctx context.Context, j crashJob, again int) error {
	killed, err := c.live(ctx, j)
	if err == nil && killed && again > 0 {
		killed, err = c.live(ctx, crashJob{DieWrite: again})
	}
	if err == nil && killed {
		if killed, err = c.live(ctx, crashJob{}); err == nil && killed {
			err = errors.New("killed by nobody")
		}
	}
	return err
}

// live lets one process work until the task's end or its own.
func (c *crashTask) live(ctx context.Context, j crashJob) (killed bool, err error) {
	j.Dir, j.Life = c.dir, len(c.lives)
	if j.Life == 0 {
		c.end = crashFound{}
	}
	c.lives = append(c.lives, c.end)
	raw, err := json.Marshal(j)
	if err != nil {
		return false, err
	}
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), crashVariable+"="+string(raw), "GORACE=atexit_sleep_ms=0")
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	switch status, _ := child.ProcessState.Sys().(syscall.WaitStatus); {
	case err == nil:
	case errors.As(err, &exit) && status.Signal() == syscall.SIGKILL:
		killed = true
		c.kills++
	default:
		return false, fmt.Errorf("%w: %s", err, out)
	}
	st, err := sqlite.Open(ctx, filepath.Join(c.dir, "tasks.db"), sqlite.Config{})
	if err != nil {
		return killed, err
	}
	c.end, err = crashLoad(ctx, st)
	return killed, errors.Join(err, st.Close()) //nolint:contextcheck // what is open is closed whoever waits
}

// account is the faults of what the processes did.
func (c *crashTask) account(undisturbed *crashFound) error {
	lines, err := crashLines(c.dir)
	return errors.Join(append(crashAccount(lines, c.lives, c.end, undisturbed), err)...)
}

var errDisk = errors.New("the disk is full")

// The same without processes, so that every write can fail in every run of the
// tests, one way or the other: one that is not carried out, or is and nobody learns of it, stops the
// work there. The next executor goes on.
func TestCrash_everyWriteFails(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards calls
	calls := map[string]int{}
	undisturbed := breakWrites(t, func(call string, n int) error {
		mu.Lock()
		defer mu.Unlock()
		calls[call] = max(calls[call], n)
		return nil
	})
	if err := undisturbed.account(nil); err != nil {
		t.Fatalf("undisturbed: %v", err)
	}
	if calls["Append"] < 10 || calls["Save"] < 5 {
		t.Fatalf("too few writes: %v", calls)
	}
	for _, call := range []string{"Create", "Append", "Save"} {
		for n := range calls[call] {
			for carriedOut, fault := range []error{errDisk, storetest.After(errDisk)} {
				if carriedOut != n%2 && !crashAll() {
					continue
				}
				broken := breakWrites(t, func(c string, i int) error {
					if c == call && i == n+1 {
						return fault
					}
					return nil
				})
				if err := broken.account(&undisturbed.end); err != nil || len(broken.lives) != 2 {
					t.Errorf("%s %d of %d, carried out: %t: %d attempts, %v", call, n+1, calls[call], carriedOut == 1, len(broken.lives), err)
				}
			}
		}
	}
}

// breakWrites works on a task in a store that fails in the first attempt, and
// goes on until the task is done.
func breakWrites(t *testing.T, fail func(call string, n int) error) *crashTask {
	t.Helper()
	c := &crashTask{dir: t.TempDir()}
	held := inmem.New(inmem.Config{})
	defer func() { _ = held.Close() }()
	for life := range 3 {
		c.lives = append(c.lives, c.end)
		w := &crasher{crashJob: crashJob{Dir: c.dir, Life: life}}
		failed := w.work(t.Context(), storetest.Faulty(held, fail))
		var err error
		if c.end, err = crashLoad(t.Context(), held); err != nil {
			t.Error(err)
		}
		if failed == nil {
			return c
		}
		if !errors.Is(failed, errDisk) {
			t.Fatal(failed)
		}
		fail = func(string, int) error { return nil }
	}
	t.Fatal("the task does not come to an end")
	return nil
}
