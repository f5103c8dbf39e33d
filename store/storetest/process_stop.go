//go:build unix

package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// hold takes the lease, waits for a signal, and then tries to write as if nothing
// had happened.
func (w *worker) hold(ctx context.Context) error {
	_, hasTails := w.st.(store.Tails)
	s, err := w.st.Load(ctx, lifeRef(), hasTails)
	if err != nil {
		return err
	}
	lease, err := w.leases().Acquire(ctx, lifeRef(), w.holder, w.Lease)
	if err != nil {
		return err
	}
	w.Report(report{Step: "holding", Token: lease.Token})
	w.Wait()
	late, err := addText(s, "late")
	if err != nil {
		return err
	}
	if hasTails {
		_, err = w.tails().Append(ctx, late, store.Append{Fence: lease.Token})
		w.Report(report{Step: "append: " + verdict(err)})
	}
	_, err = w.st.Save(ctx, late, store.Commit{ID: "late", At: lifeTime(), Fence: lease.Token, Release: true})
	w.Report(report{Step: "save: " + verdict(err)})
	_, err = w.leases().Renew(ctx, lifeRef(), lease, w.Lease)
	w.Report(report{Step: "renew: " + verdict(err)})
	return w.leases().Release(ctx, lifeRef(), lease)
}

func verdict(err error) string {
	if errors.Is(err, session.ErrFenced) {
		return "fenced"
	}
	return fmt.Sprint(err)
}

// lateHolderIsFenced stops the holder of a lease for longer than the lease
// lasts. When it wakes, another holder is at work, and nothing it does counts.
func lateHolderIsFenced(t *testing.T, p Processes) {
	url := p.NewURL(t)
	st := raceStart(t, p, url)
	leases, ok := st.(store.Leases)
	if !ok {
		t.Skip("store has no ability " + Leases)
	}
	c := startWorker(t, job{Do: "hold", URL: url, Lease: shortLease}, 0)
	holding := c.next(t, "holding")
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	lease := waitForLease(t, leases)
	if lease.Token <= holding.Token {
		t.Errorf("token %d after %d", lease.Token, holding.Token)
	}
	s, err := addText(loadFinal(t, st), "in time")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Save(t.Context(), s, store.Commit{ID: "in time", At: lifeTime(), Fence: lease.Token}); err != nil {
		t.Fatalf("save under the new lease: %v", err)
	}
	if err := c.Continue(); err != nil {
		t.Fatal(err)
	}
	c.goOn(t)
	tried, _ := c.all(t)
	for _, r := range tried {
		if r.Step != "append: fenced" && r.Step != "save: fenced" && r.Step != "renew: fenced" {
			t.Errorf("the late holder got %q, want to be fenced", r.Step)
		}
	}
	if len(tried) < 2 {
		t.Errorf("the late holder tried %d writes", len(tried))
	}
	if got := loadFinal(t, st); got.Version() != s.Version() || session.Base(got) != session.Base(s) || lastText(got) != "in time" {
		t.Errorf("the late holder changed the session: version %d, change %d, %q", got.Version(), session.Base(got), lastText(got))
	}
	if l, held, err := leases.Holding(t.Context(), lifeRef()); err != nil || !held || l.Token != lease.Token {
		t.Errorf("the late holder changed the lease: %+v, %t, %v", l, held, err)
	}
}

// waitForLease takes a lease as soon as it has run out.
func waitForLease(t *testing.T, leases store.Leases) store.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*shortLease)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := leases.Acquire(ctx, lifeRef(), "the test", time.Minute)
		if err == nil {
			return l
		}
		if !errors.Is(err, session.ErrBusy) {
			t.Fatalf("take over the lease: %v", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("take over the lease: %v", err)
		}
	}
}
