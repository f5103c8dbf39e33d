package workflow_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The same without processes, so that every write of every spec can fail in
// every run of the tests: a write that is not carried out, or is and nobody
// learns of it, stops the run there. The next attempt goes on.
func TestCrash_everyWriteFails(t *testing.T) {
	t.Parallel()
	recorder := newCrashRecorder(t)
	for _, p := range crashPlans() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex // guards calls
			calls := map[string]int{}
			r := breakWrites(t, recorder, p, func(call string, n int) error {
				mu.Lock()
				defer mu.Unlock()
				calls[call] = max(calls[call], n)
				return nil
			})
			end, err := r.end()
			if err != nil {
				t.Fatal(err)
			}
			p.end, p.keys = &end, inLog(r.after).answered
			for _, call := range []string{"Append", "Save"} {
				for n := range calls[call] {
					for carriedOut, fault := range []error{errBroken, storetest.After(errBroken)} {
						if carriedOut != n%2 && flag.Lookup(wholeFlag).Value.String() != "true" {
							continue
						}
						broken := breakWrites(t, recorder, p, func(c string, i int) error {
							if c == call && i == n+1 {
								return fault
							}
							return nil
						})
						if c, err := broken.account(); err != nil || len(broken.lives) != 2 {
							t.Fatalf("%s %d of %d, carried out: %t: %d attempts, %+v, %v",
								call, n+1, calls[call], carriedOut == 1, len(broken.lives), c, err)
						}
					}
				}
			}
		})
	}
}

var errBroken = errors.New("the disk is full")

// breakWrites runs a spec on a store that fails in the first attempt, and
// goes on until the run is done.
func breakWrites(t *testing.T, recorder *crashRecorder, p *crashPlan, fail func(call string, n int) error) *crashRun {
	t.Helper()
	dir, id := t.TempDir(), uuid.NewString()
	r := &crashRun{plan: p, job: crashJob{Model: recorder.server.URL, Session: id, Dir: dir, Answers: p.answers, Spec: filepath.Join("testdata", "crash", p.name+".yaml")}}
	recorder.add(r)
	held := inmem.New(inmem.Config{})
	for r.job.Life = 0; r.job.Life < 3; r.job.Life++ {
		r.lives = append(r.lives, inLog(r.after))
		err := r.attempt(t.Context(), storetest.Faulty(held, fail))
		if err == nil {
			return r
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		fail = func(string, int) error { return nil }
	}
	t.Fatal("the run does not end")
	return nil
}

// attempt works on the run in this process.
func (r *crashRun) attempt(ctx context.Context, st storetest.Full) (err error) {
	w := &crasher{crashJob: r.job, warn: func(text string) { err = errors.Join(err, fmt.Errorf("warned: %s", text)) }}
	if w.model, err = r.job.provider(); err != nil {
		return err
	}
	if w.rt, err = holdfast.New(holdfast.Config{Store: st}); err != nil {
		return err
	}
	failed := w.finish(ctx)
	found, loadErr := w.rt.Get(ctx, r.job.Session, holdfast.Whole(), holdfast.WithTail())
	r.after = found
	return errors.Join(err, failed, loadErr, w.rt.Close())
}
