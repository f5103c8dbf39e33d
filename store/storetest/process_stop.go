//go:build unix

package storetest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// hold takes the lease, waits until it is told to go on, and then tries to
// write as if nothing had happened.
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
	if err := w.told("holding", lease.Token); err != nil {
		return err
	}
	late, err := spoken(s, "late")
	if err != nil {
		return err
	}
	if hasTails {
		_, err = w.tails().Append(ctx, late, store.Append{Fence: lease.Token})
		tell(report{Step: "append: " + verdict(err)})
	}
	_, err = w.st.Save(ctx, late, store.Commit{ID: "late", At: lifeTime(), Fence: lease.Token, Release: true})
	tell(report{Step: "save: " + verdict(err)})
	_, err = w.leases().Renew(ctx, lifeRef(), lease, w.Lease)
	tell(report{Step: "renew: " + verdict(err)})
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
	c := startChild(t, job{Do: "hold", URL: url, Lease: shortLease})
	holding := c.next(t, "holding")
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lease := waitForLease(t, leases)
	if lease.Token <= holding.Token {
		t.Errorf("token %d after %d", lease.Token, holding.Token)
	}
	s, err := spoken(final(t, st), "in time")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Save(t.Context(), s, store.Commit{ID: "in time", At: lifeTime(), Fence: lease.Token}); err != nil {
		t.Fatalf("save under the new lease: %v", err)
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.goOn(t)
	said := 0
	for _, r := range c.all(t) {
		said++
		if r.Step != "append: fenced" && r.Step != "save: fenced" && r.Step != "renew: fenced" {
			t.Errorf("the late holder got %q, want to be fenced", r.Step)
		}
	}
	if said < 2 || c.exit != nil {
		t.Errorf("the late holder tried %d writes and ended with %v", said, c.exit)
	}
	if got := final(t, st); got.Version() != s.Version() || got.Base() != s.Base() || lastText(got) != "in time" {
		t.Errorf("the late holder changed the session: version %d, change %d, %q", got.Version(), got.Base(), lastText(got))
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
