package workflow_test

import (
	"context"
	"testing"
)

// Two processes take up a broken-off run at the same time: one works, the
// other is told that the run is in other hands.
func TestCrash_twoTakeItUp(t *testing.T) {
	t.Parallel()
	s := newCrashSite(t, "sqlite")
	p := crashPlans()[0]
	if err := s.rehearse(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r, err := s.newRun(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	job := r.job
	job.DieAt = "paused: step/1"
	if killed, err := r.live(t.Context(), job); err != nil || killed == "" {
		t.Fatalf("killed by %q, %v", killed, err)
	}
	busy, goOn := context.WithCancel(t.Context())
	defer goOn()
	r.mu.Lock()
	r.gate = func(ask) { <-busy.Done() } // the one that works is at it until the other has given up
	r.mu.Unlock()
	job = r.job
	job.NoWait = true
	var pair [2]*crashChild
	for i := range pair {
		if pair[i], err = r.begin(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	first, second := pair[0], pair[1]
	select {
	case <-first.gone:
	case <-second.gone:
		first, second = second, first
	}
	goOn()
	if _, last, err := first.ended(); err != nil || !last.Busy {
		t.Errorf("the one that ended first: %+v, %v, want busy", last, err)
	}
	if _, last, err := second.ended(); err != nil || !last.Done {
		t.Errorf("the one that ended last: %+v, %v, want done", last, err)
	}
	if err := r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := r.account(); err != nil || c.lost != 0 {
		t.Errorf("%+v, %v: want every answer asked for once", c, err)
	}
}
