package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var errBroken = errors.New("the disk is full")

// FailEveryWrite does the same without processes, so that every run of the tests
// can fail every write: a store call fails before or after it is carried out,
// and the next attempt continues. It returns how often an undisturbed run makes
// each call. The place must be in memory.
func (p *Place) FailEveryWrite(t *testing.T, s *Scenario, calls ...string) map[string]int {
	t.Helper()
	plan := &Plan{Scenario: s, place: p}
	var mu sync.Mutex // guards made
	made := map[string]int{}
	r, err := plan.attempts(t.Context(), func(call string, n int) error {
		mu.Lock()
		defer mu.Unlock()
		made[call] = max(made[call], n)
		return nil
	})
	if err == nil {
		err = plan.keep(r)
	}
	if err != nil {
		t.Fatalf("undisturbed: %v", err)
	}
	for _, call := range calls {
		if made[call] == 0 {
			t.Errorf("the work never calls %s: %v", call, made)
		}
		for n := range made[call] {
			for carriedOut, fault := range []error{errBroken, storetest.After(errBroken)} {
				if carriedOut != n%2 && !Whole() {
					continue
				}
				if err := plan.breakCall(t.Context(), call, n+1, fault); err != nil {
					t.Errorf("%s %d of %d, carried out: %t: %v", call, n+1, made[call], carriedOut == 1, err)
				}
			}
		}
	}
	return made
}

// breakCall makes one store call fail in the first attempt.
func (p *Plan) breakCall(ctx context.Context, call string, n int, fault error) error {
	r, err := p.attempts(ctx, func(c string, i int) error {
		if c == call && i == n {
			return fault
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err = r.Account(); err == nil && len(r.Lives) != 2 {
		err = fmt.Errorf("%d attempts, want 2", len(r.Lives))
	}
	return err
}

// attempts does the work in this process, on a store that fails in the first
// attempt.
func (p *Plan) attempts(ctx context.Context, fail func(call string, n int) error) (*Run, error) {
	r, err := p.NewRun(ctx, 0)
	if err != nil {
		return nil, err
	}
	for range 3 {
		failed := r.attempt(ctx, storetest.Faulty(r.held, fail))
		if err := r.Reload(ctx); err != nil {
			return nil, err
		}
		if failed == nil {
			return r, r.held.Close()
		}
		if !errors.Is(failed, errBroken) {
			return nil, failed
		}
		fail = func(string, int) error { return nil }
	}
	return nil, errors.New("the work does not come to an end")
}

func (r *Run) attempt(ctx context.Context, st storetest.Full) error {
	w := &Worker{
		Process: &child.Process{}, Run: r.ID, Dir: r.Dir, Life: r.begin(), Lease: r.Lease, Model: r.plan.place.modelURL(),
		Store: st, journal: journalIn(r.Dir),
	}
	var err error
	if w.own, err = json.Marshal(r.Job); err != nil {
		return err
	}
	err = r.plan.Work(ctx, w)
	return errors.Join(append(w.problems, err)...)
}
