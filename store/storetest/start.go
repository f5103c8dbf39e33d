package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func startBehaviours() []behaviour {
	needs := []string{Starts, Leases, Tails}
	return []behaviour{
		{name: "start/takesTheLeaseAndAppends", needs: needs, check: startDoesBoth},
		{name: "start/holderWorksOnUnderItsLease", needs: needs, check: startedHolderWorksOn},
		{name: "start/refusedLeavesNeitherLeaseNorChange", needs: needs, check: refusedStartLeavesNothing},
		{name: "start/checksRunInOrder", needs: needs, check: startChecksInOrder},
		{name: "start/continuesATailItHasSeen", needs: needs, check: startContinuesTail},
		{name: "start/writesKeys", needs: append([]string{Keys}, needs...), check: startWritesKeys},
		{name: "start/takesInboxItems", needs: append([]string{Inboxes}, needs...), check: startTakesItems},
		{name: "start/ofManyStartersOneWins", needs: needs, check: ofManyStartersOneWins},
		{name: "start/takesOverAnExpiredLease", needs: append([]string{settableClock}, needs...), check: startTakesOver},
		{name: "start/tellsSubscribers", needs: append([]string{Wakes}, needs...), check: startTells},
		{name: "start/corruptIsRefused", needs: append([]string{corruptHook}, needs...), check: startOnCorrupt},
	}
}

// newBeginning makes the first write of an execution.
func newBeginning(holder string) store.Beginning {
	return store.Beginning{Holder: holder, Length: time.Hour}
}

// mustStart begins an execution.
func mustStart(t testing.TB, st store.Store, s session.Session, b store.Beginning) (session.Session, store.Lease) {
	t.Helper()
	flushed, l, err := ability[store.Starts](t, st).Start(t.Context(), s, b)
	if err != nil {
		t.Fatalf("start on %s: %v", s.ID(), err)
	}
	return flushed, l
}

// refusedStart tries to begin an execution and returns why it could not. No
// lease may come with an error.
func refusedStart(t testing.TB, st store.Store, s session.Session, b store.Beginning) error {
	t.Helper()
	_, l, err := ability[store.Starts](t, st).Start(t.Context(), s, b)
	if err == nil {
		t.Errorf("start on %s as %s worked", s.ID(), b.Holder)
	} else if l.Token != 0 {
		t.Errorf("a refused start returned the lease %+v", l)
	}
	return err
}

// wantHeld fails the test unless the lease of a session is this one; the zero
// lease means that nobody holds it.
func wantHeld(t testing.TB, st store.Store, r store.Ref, want store.Lease) {
	t.Helper()
	l, live, err := ability[store.Leases](t, st).Holding(t.Context(), r)
	if err != nil || live != (want.Token != 0) || live && (l.Token != want.Token || l.Holder != want.Holder || !l.Until.Equal(want.Until)) {
		t.Errorf("holding %s: %+v, %t, %v; want %+v", r.ID, l, live, err, want)
	}
}

func startDoesBoth(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	sealed := create(t, open[0], withMessage(t, newSession(t, "s"), "hello"))
	before := acquire(t, open[0], ref("s"), "before")
	if err := ability[store.Leases](t, open[0]).Release(t.Context(), ref("s"), before); err != nil {
		t.Fatalf("release: %v", err)
	}
	begun := withChanges(t, withMessage(t, sealed, "begin"), session.ExecutionStarted{ExecutionID: "e1"})
	flushed, l := mustStart(t, open[0], begun, newBeginning("worker"))
	if l.Holder != "worker" || l.Token <= before.Token || l.Until.IsZero() {
		t.Errorf("the lease is %+v after token %d", l, before.Token)
	}
	if d.Clock != nil && !l.Until.Equal(d.Clock.Now().Add(time.Hour)) {
		t.Errorf("until %s, want %s", l.Until, d.Clock.Now().Add(time.Hour))
	}
	if flushed.Version() != 1 || !flushed.HasTail() || session.Base(flushed) != begun.Seq() || len(session.Unsaved(flushed)) != 0 {
		t.Errorf("flushed: version %d, tail %t, base %d of %d, %d pending",
			flushed.Version(), flushed.HasTail(), session.Base(flushed), begun.Seq(), len(session.Unsaved(flushed)))
	}
	wantHeld(t, open[1], ref("s"), l)
	wantSame(t, loadTail(t, open[1], ref("s")), flushed)
	wantSame(t, load(t, open[1], ref("s")), sealed)
	if refs := listInterrupted(t, open[1]); len(refs) != 0 {
		t.Errorf("interrupted while it is held: %v", refs)
	}

	// A beginning that changes nothing takes the lease all the same.
	idle := create(t, open[0], newSession(t, "idle"))
	flushed, l = mustStart(t, open[0], idle, newBeginning("waiter"))
	wantSame(t, flushed, idle)
	wantHeld(t, open[1], ref("idle"), l)
}

func startedHolderWorksOn(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "s"))
	s, l := mustStart(t, st, withMessage(t, s, "one"), newBeginning("worker"))
	_, err := st.Save(t.Context(), s, commit(s, "other"))
	wantErr(t, "save by another", err, session.ErrBusy)
	_, err = ability[store.Leases](t, st).Acquire(t.Context(), ref("s"), "other", time.Minute)
	wantErr(t, "acquire by another", err, session.ErrBusy)
	wantErr(t, "start by another", refusedStart(t, st, s, newBeginning("other")), session.ErrBusy)
	wantErr(t, "start by the holder", refusedStart(t, st, s, newBeginning("worker")), session.ErrBusy)
	if s, err = ability[store.Tails](t, st).Append(t.Context(), withMessage(t, s, "two"), store.Append{Fence: l.Token}); err != nil {
		t.Fatalf("append by the holder: %v", err)
	}
	if _, err = ability[store.Leases](t, st).Renew(t.Context(), ref("s"), l, 2*time.Hour); err != nil {
		t.Fatalf("renew by the holder: %v", err)
	}
	c := commit(s, "done")
	c.Fence, c.Release = l.Token, true
	if s, err = st.Save(t.Context(), s, c); err != nil {
		t.Fatalf("save by the holder: %v", err)
	}
	wantTexts(t, load(t, st, ref("s")), "one", "two")
	wantHeld(t, st, ref("s"), store.Lease{})
	wantFenced(t, st, s, l.Token)
	_, next := mustStart(t, st, withMessage(t, s, "three"), newBeginning("next"))
	if next.Token <= l.Token {
		t.Errorf("token %d after %d", next.Token, l.Token)
	}
	late := withMessage(t, s, "late")
	_, err = ability[store.Tails](t, st).Append(t.Context(), late, store.Append{Fence: l.Token})
	wantErr(t, "append under the token before", err, session.ErrFenced)
}

// refusedStartLeavesNothing has every reason in turn and looks whether lease
// or change stayed behind.
func refusedStartLeavesNothing(t testing.TB, d Data) {
	st := d.Open(t)
	wantErr(t, "start without a session", refusedStart(t, st, newSession(t, "nobody"), newBeginning("w")), session.ErrNotFound)

	old := create(t, st, newSession(t, "s"))
	now := save(t, st, withNote(t, old, "newer"))
	unchanged := func() {
		t.Helper()
		wantHeld(t, st, ref("s"), store.Lease{})
		wantSame(t, loadTail(t, st, ref("s")), now)
	}
	wantConflict(t, "start from an old version", refusedStart(t, st, withMessage(t, old, "x"), newBeginning("w")), session.ReasonStale)
	unchanged()
	for _, length := range []time.Duration{0, -time.Second} {
		wantErr(t, "start for "+length.String(), refusedStart(t, st, withMessage(t, now, "x"), store.Beginning{Holder: "w", Length: length}), session.ErrInvalid)
		unchanged()
	}
	b := newBeginning("w")
	b.Keys = []store.Key{{Name: "a\nb"}}
	wantErr(t, "start with a bad key", refusedStart(t, st, withMessage(t, now, "x"), b), session.ErrInvalid)
	unchanged()
	rewound, err := now.Rewound(old, start().Add(time.Hour))
	if err != nil {
		t.Fatalf("rewind: %v", err)
	}
	wantErr(t, "start with a rewind", refusedStart(t, st, rewound, newBeginning("w")), session.ErrInvalid)
	unchanged()

	flushed := mustAppend(t, st, withMessage(t, now, "tail"))
	wantConflict(t, "start that has not seen the tail", refusedStart(t, st, withMessage(t, now, "x"), newBeginning("w")), session.ReasonOpenTail)
	wantHeld(t, st, ref("s"), store.Lease{})
	wantSame(t, loadTail(t, st, ref("s")), flushed)

	if err := st.Delete(t.Context(), ref("s"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	again := create(t, st, newSessionFrom(t, session.Identity{ID: "s", AgentID: "second"}))
	wantConflict(t, "start on a session made again", refusedStart(t, st, withMessage(t, old, "x"), newBeginning("w")), session.ReasonReplaced)
	wantHeld(t, st, ref("s"), store.Lease{})
	wantSame(t, loadTail(t, st, ref("s")), again)
}

// startChecksInOrder makes several things wrong at once: the first is named.
func startChecksInOrder(t testing.TB, d Data) {
	st := d.Open(t)
	old := create(t, st, newSession(t, "s"))
	unseen := mustAppend(t, st, withNote(t, save(t, st, withNote(t, old, "newer")), "tail"))
	wantConflict(t, "stale and an unseen tail", refusedStart(t, st, withMessage(t, old, "x"), newBeginning("w")), session.ReasonStale)
	l := acquire(t, st, ref("s"), "holder")
	err := refusedStart(t, st, withMessage(t, old, "x"), newBeginning("w"))
	var busy *session.BusyError
	if !errors.As(err, &busy) || busy.Holder != "holder" || !busy.Until.Equal(l.Until) {
		t.Errorf("stale on a held session: %v, want BusyError of holder until %s", err, l.Until)
	}
	wantHeld(t, st, ref("s"), l)
	if err := st.Delete(t.Context(), ref("s"), l.Token); err != nil {
		t.Fatalf("delete: %v", err)
	}
	create(t, st, newSessionFrom(t, session.Identity{ID: "s", AgentID: "second"}))
	wantConflict(t, "replaced and stale", refusedStart(t, st, withMessage(t, unseen, "x"), newBeginning("w")), session.ReasonReplaced)
	wantHeld(t, st, ref("s"), store.Lease{})
}

func startContinuesTail(t testing.TB, d Data) {
	st := d.Open(t)
	mustAppend(t, st, withMessage(t, create(t, st, newSession(t, "s")), "before the crash"))
	s, l := mustStart(t, st, withMessage(t, loadTail(t, st, ref("s")), "after it"), newBeginning("w"))
	wantSame(t, loadTail(t, st, ref("s")), s)
	c := commit(s, "done")
	c.Fence = l.Token
	saved, err := st.Save(t.Context(), s, c)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	wantTexts(t, saved, "before the crash", "after it")
	wantSame(t, load(t, st, ref("s")), saved)
}

func startWritesKeys(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "s"))
	stale := s
	s = save(t, st, withNote(t, s, "newer"))
	b := newBeginning("w")
	b.Keys = []store.Key{{Name: "k", Fingerprint: "f"}}
	wantConflict(t, "stale start", refusedStart(t, st, withMessage(t, stale, "x"), b), session.ReasonStale)
	wantKey(t, st, ref("s"), "k", "", -1)
	s, l := mustStart(t, st, withMessage(t, s, "hello"), b)
	wantKey(t, st, ref("s"), "k", "f", 0)
	c := commit(s, "done")
	c.Fence = l.Token
	if _, err := st.Save(t.Context(), s, c); err != nil {
		t.Fatalf("save: %v", err)
	}
	wantKey(t, st, ref("s"), "k", "f", 3)
}

func startTakesItems(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "s"))
	post(t, st, ref("s"), item("a"))
	take := func(s session.Session) session.Session {
		return withChanges(t, s, session.InboxTaken{ItemID: "a", ItemKind: string(store.ItemFollowUp)})
	}
	s, l := mustStart(t, st, take(s), newBeginning("w"))
	wantUnread(t, st, ref("s"))
	if err := ability[store.Leases](t, st).Release(t.Context(), ref("s"), l); err != nil {
		t.Fatalf("release: %v", err)
	}
	wantErr(t, "start that takes what is taken", refusedStart(t, st, take(s), newBeginning("w")), session.ErrInvalid)
	wantHeld(t, st, ref("s"), store.Lease{})
	wantSame(t, loadTail(t, st, ref("s")), s)
}

// ofManyStartersOneWins: the others meet the winner's lease or, where they
// come when it was released, what it wrote.
func ofManyStartersOneWins(t testing.TB, d Data) {
	const starters = 20
	st := d.Open(t)
	s := create(t, st, newSession(t, "prize"))
	last := int64(0)
	for round := range 3 {
		from := s
		leases := make([]store.Lease, starters)
		errs := runTogether(t, d, starters, func(i int, st store.Store) (err error) {
			next := withMessage(t, from, fmt.Sprintf("round %d of %d", round, i))
			_, leases[i], err = ability[store.Starts](t, st).Start(t.Context(), next, newBeginning(fmt.Sprint(i)))
			return err
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Errorf("%d and %d both won", winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, session.ErrBusy) && !errors.Is(err, session.ErrConflict):
				t.Errorf("%d lost with %v, want BusyError or ConflictError", i, err)
			}
		}
		if winner < 0 {
			t.Fatalf("nobody won: %v", errs)
		}
		if leases[winner].Token <= last {
			t.Errorf("token %d after %d", leases[winner].Token, last)
		}
		last = leases[winner].Token
		wantHeld(t, st, ref("prize"), leases[winner])
		now := loadTail(t, st, ref("prize"))
		if want := fmt.Sprintf("round %d of %d", round, winner); now.Len() != round+1 || now.Message(round).Content.Text() != want {
			t.Fatalf("%d messages after round %d, the last is not %q", now.Len(), round, want)
		}
		c := commit(now, "done")
		c.Fence, c.Release = last, true
		var err error
		if s, err = st.Save(t.Context(), now, c); err != nil {
			t.Fatalf("save by the winner: %v", err)
		}
	}
}

func startTakesOver(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	s := create(t, open[0], newSession(t, "s"))
	b := newBeginning("sleeper")
	b.Length = 10 * time.Second
	s, old := mustStart(t, open[0], withMessage(t, s, "begun"), b)
	d.Clock.Advance(10*time.Second - time.Microsecond)
	wantErr(t, "start a moment before the end", refusedStart(t, open[1], s, newBeginning("second")), session.ErrBusy)
	d.Clock.Advance(time.Microsecond)
	now, l := mustStart(t, open[1], withMessage(t, loadTail(t, open[1], ref("s")), "taken over"), newBeginning("second"))
	if l.Token <= old.Token || l.Holder != "second" {
		t.Errorf("the lease is %+v after token %d", l, old.Token)
	}
	_, err := ability[store.Tails](t, open[0]).Append(t.Context(), withMessage(t, s, "late"), store.Append{Fence: old.Token})
	wantErr(t, "append by the sleeper", err, session.ErrFenced)
	c := commit(now, "late")
	c.Fence = old.Token
	_, err = open[0].Save(t.Context(), now, c)
	wantErr(t, "save by the sleeper", err, session.ErrFenced)
	wantSame(t, loadTail(t, open[0], ref("s")), now)
	wantHeld(t, open[0], ref("s"), l)
}

func startTells(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "s"))
	news, stop := ability[store.Wakes](t, st).Subscribe(ref("s"))
	defer stop()
	mustStart(t, st, withMessage(t, s, "x"), newBeginning("w"))
	wantNews(t, "start", news)
}

func startOnCorrupt(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, withMessage(t, newSession(t, "bad"), "hello"))
	d.Corrupt(t, ref("bad"))
	wantCorrupt(t, "start", refusedStart(t, st, withMessage(t, s, "x"), newBeginning("w")))
	wantHeld(t, st, ref("bad"), store.Lease{})
}
