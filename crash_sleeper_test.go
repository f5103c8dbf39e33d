//go:build unix

package holdfast_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
)

// A process that sleeps is as good as dead: its lease runs out and another
// takes its turn up. When it wakes, the answer it waited for is there, and
// nothing that it does with it counts.
func TestCrash_processThatSleepsThroughItsLease(t *testing.T) {
	t.Parallel()
	place := crashtest.NewPlace(t, crashtest.Config{Store: "sqlite", Protocol: "openai"})
	r, err := place.MustRehearse(t, turnScenario("sqlite", "openai")).NewRun(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	asleep, wake := context.WithCancel(t.Context())
	defer wake()
	r.Hold(func(e crashtest.Effect) {
		if e.Life == 0 && e.Key == answerKey(2) {
			close(asked)
			<-asleep.Done()
		}
	})
	r.Lease = 2 * time.Second // it is asleep long before it would renew
	sleeper, err := r.Start(t.Context(), crashtest.Kill{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-sleeper.Gone:
		end, err := sleeper.Wait()
		t.Fatalf("it ended early: %+v, %v", end, err)
	}
	if err := sleeper.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Lease = time.Minute
	if killed, err := r.Live(t.Context(), crashtest.Kill{}); err != nil || killed != "" {
		t.Fatalf("the next process: killed by %q, %v", killed, err)
	}
	wake()
	if err := sleeper.Continue(); err != nil {
		t.Fatal(err)
	}
	if end, err := sleeper.Wait(); err == nil || !strings.Contains(err.Error(), "no longer valid") {
		t.Errorf("the sleeper ended with %+v, %v, want that its lease is lost", end, err)
	}
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOneLost(t, r)
}
