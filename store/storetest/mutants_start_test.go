package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// The stores of this file start wrongly, or show a watcher the wrong log.

func startMutants() map[string]mutant {
	return map[string]mutant{
		"start in two writes": {func(s Full) store.Store { return twoWrites{s} }, []string{
			"start/refusedLeavesNeitherLeaseNorChange", "start/checksRunInOrder", "start/takesInboxItems"}},
		"start takes no lease": {func(s Full) store.Store { return leaseless{s} }, []string{
			"start/takesTheLeaseAndAppends", "start/holderWorksOnUnderItsLease", "start/takesOverAnExpiredLease", "start/ofManyStartersOneWins"}},
		"start breaks leases": {func(s Full) store.Store { return breaksLeases{s} }, []string{
			"start/holderWorksOnUnderItsLease", "start/checksRunInOrder", "start/takesOverAnExpiredLease"}},
		"start forgets keys":   {func(s Full) store.Store { return noStartKeys{s} }, []string{"start/writesKeys"}},
		"start drops changes":  {func(s Full) store.Store { return leaseOnly{s} }, []string{"start/takesTheLeaseAndAppends", "start/continuesATailItHasSeen"}},
		"start merges":         {func(s Full) store.Store { return mergesStarts{s} }, []string{"start/refusedLeavesNeitherLeaseNorChange", "start/checksRunInOrder"}},
		"log hides the newest": {func(s Full) store.Store { return late{s} }, []string{"watch/seesEveryChangeOnceAndInOrder"}},
		"log repeats itself":   {func(s Full) store.Store { return repeats{s} }, []string{"watch/seesEveryChangeOnceAndInOrder"}},
	}
}

// twoWrites leaves the lease behind when the second write is refused.
type twoWrites struct{ Full }

func (m twoWrites) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	l, err := m.Acquire(ctx, store.RefOf(s), b.Holder, b.Length)
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	begun, err := m.Append(ctx, s, store.Append{Fence: l.Token, Keys: b.Keys})
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	return begun, l, nil
}

// leaseless lets go of the lease at once.
type leaseless struct{ Full }

func (m leaseless) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	begun, l, err := m.Full.Start(ctx, s, b)
	if err == nil {
		err = m.Release(ctx, store.RefOf(s), l)
	}
	return begun, l, err
}

type breaksLeases struct{ Full }

func (m breaksLeases) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	if l, live, err := m.Holding(ctx, store.RefOf(s)); live && err == nil {
		if err := m.Release(ctx, store.RefOf(s), l); err != nil {
			return session.Session{}, store.Lease{}, err
		}
	}
	return m.Full.Start(ctx, s, b)
}

type noStartKeys struct{ Full }

func (m noStartKeys) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	b.Keys = nil
	return m.Full.Start(ctx, s, b)
}

// leaseOnly says that it appended.
type leaseOnly struct{ Full }

func (m leaseOnly) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	l, err := m.Acquire(ctx, store.RefOf(s), b.Holder, b.Length)
	return session.Flush(s), l, err
}

// mergesStarts begins on what is there now where the value is stale.
type mergesStarts struct{ Full }

func (m mergesStarts) Start(ctx context.Context, s session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	begun, l, err := m.Full.Start(ctx, s, b)
	if !errors.Is(err, session.ErrConflict) {
		return begun, l, err
	}
	now, err := m.Load(ctx, store.RefOf(s), true)
	if err != nil {
		return begun, l, err
	}
	for _, r := range session.Unsaved(s) {
		if now, err = now.With(time.Time{}, r.Change); err != nil {
			return begun, l, err
		}
	}
	return m.Full.Start(ctx, now, b)
}

// late shows the last change of a tail before the one that precedes it, as a
// store does that numbers changes before it commits them.
type late struct{ Full }

func (m late) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	entries, err := m.Full.Log(ctx, r, after, limit)
	if n := len(entries); n > 1 && entries[n-1].Version == 0 {
		entries = slices.Delete(entries, n-2, n-1)
	}
	return entries, err
}

// repeats begins with the change that the reader has seen already.
type repeats struct{ Full }

func (m repeats) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	entries, err := m.Full.Log(ctx, r, after, limit)
	if err != nil || len(entries) == 0 || after == 0 {
		return entries, err
	}
	return m.Full.Log(ctx, r, after-1, limit)
}
