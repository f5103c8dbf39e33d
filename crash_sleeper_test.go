//go:build unix

package holdfast_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that sleeps is as good as dead: its lease runs out and another
// takes its turn up. When it wakes, the answer it waited for is there, and
// nothing that it does with it counts.
func TestCrash_processThatSleepsThroughItsLease(t *testing.T) {
	t.Parallel()
	s := newCrashSite(t, "sqlite", "openai")
	s.lease = 2 * time.Second // it is asleep long before it would renew
	r, err := s.newRun(t.Context(), byContinue)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	asleep, wake := context.WithCancel(t.Context())
	defer wake()
	r.hold(func(a ask) {
		if a.life == 0 && a.step == 2 {
			close(asked)
			<-asleep.Done()
		}
	})
	sleeper, err := r.begin(t.Context(), r.job)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-sleeper.gone:
		_, last, err := sleeper.ended()
		t.Fatalf("it ended early: %+v, %v", last, err)
	}
	if err := sleeper.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if r.after, err = r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := r.job
	next.Lease = time.Minute
	if killed, err := r.live(t.Context(), next, nil); err != nil || killed != "" {
		t.Fatalf("the next process: killed by %q, %v", killed, err)
	}
	wake()
	if err := sleeper.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, last, err := sleeper.ended(); err == nil || !strings.Contains(last.Problem, "no longer valid") {
		t.Errorf("the sleeper ended with %+v, %v, want that its lease is lost", last, err)
	}
	if r.after, err = r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := r.account(); err != nil || c.lostAnswers != 1 {
		t.Errorf("%v, %v: want one answer asked for again, the one the sleeper did not get", c, err)
	}
}
