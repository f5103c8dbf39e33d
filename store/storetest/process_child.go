//go:build unix

package storetest

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/store"
)

var processTests = []processTest{
	{"everyVersionHasOneWriter", everyVersionHasOneWriter},
	{"killedAtEveryWritePoint", killedAtEveryWritePoint},
	{"killedUnderLoad", killedUnderLoad},
	{"lateHolderIsFenced", lateHolderIsFenced},
	{"startersTakeTurns", startersTakeTurns},
	{"watcherSeesEverything", watcherSeesEverything},
}

// process is a worker, seen from the test that started it.
type process struct {
	*child.Child
	reports chan report // closed when the worker is gone
}

// startWorker starts a worker that kills itself at a write point, counted from
// 1, or at none. The test ends it at the latest.
func startWorker(t testing.TB, j job, killAt int) *process {
	t.Helper()
	reports := make(chan report, 16) // a worker waits for a test that does not read them
	c, err := child.Start(t.Context(), child.Config{Program: program, Job: j, KillWrite: killAt, OnReport: func(raw json.RawMessage) {
		var r report
		if err := json.Unmarshal(raw, &r); err != nil {
			r.Step = "unreadable report " + string(raw)
		}
		reports <- r
	}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-c.Gone
		close(reports)
	}()
	t.Cleanup(func() {
		c.Kill("the end of the test")
		for range reports { // until it is gone
		}
	})
	return &process{c, reports}
}

// startTogether starts workers and lets them begin at the same time.
func startTogether(t testing.TB, jobs ...job) []*process {
	t.Helper()
	var all []*process
	for _, j := range jobs {
		j.Waits = true
		all = append(all, startWorker(t, j, 0))
	}
	for _, c := range all {
		c.next(t, "ready")
	}
	for _, c := range all {
		c.goOn(t)
	}
	return all
}

// next reads the worker's next report, which must be about this step.
func (c *process) next(t testing.TB, step string) report {
	t.Helper()
	r, ok := <-c.reports
	if r.Step != step {
		if !ok {
			_, err := c.Wait()
			t.Fatalf("the worker ended (%v), want a report of %s", err, step)
		}
		t.Fatalf("the worker reported %+v, want %s", r, step)
	}
	return r
}

// goOn lets a waiting worker continue.
func (c *process) goOn(t testing.TB) {
	t.Helper()
	if err := c.GoOn(); err != nil {
		t.Fatalf("tell a worker to go on: %v", err)
	}
}

// all waits for the worker's end and returns all its reports, and the signal that
// killed it, if any.
func (c *process) all(t testing.TB) (list []report, killed string) {
	t.Helper()
	for r := range c.reports {
		list = append(list, r)
	}
	end, err := c.Wait()
	if err != nil {
		t.Fatalf("worker: %v", err)
	}
	return list, end.Killed
}

// openQuiet opens the store without watching its writes.
func openQuiet(t testing.TB, p Processes, url string) store.Store {
	t.Helper()
	st, err := p.Open(url, func(string) {})
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}
