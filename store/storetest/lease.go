package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

func leaseBehaviours() []behaviour {
	timed := []string{Leases, settableClock}
	return []behaviour{
		{name: "lease/oneHolderAtATime", needs: []string{Leases}, check: oneHolderAtATime},
		{name: "lease/ofManyAcquirersOneWins", needs: []string{Leases}, check: ofManyAcquirersOneWins},
		{name: "lease/tokensGrowAcrossTheStore", needs: []string{Leases}, check: tokensGrow},
		{name: "lease/writersWithoutItAreBusy", needs: []string{Leases}, check: writersWithoutLeaseAreBusy},
		{name: "lease/releasedTokenIsFenced", needs: []string{Leases}, check: releasedTokenIsFenced},
		{name: "lease/saveCanRelease", needs: []string{Leases}, check: saveCanRelease},
		{name: "lease/refusedSaveReleasesNothing", needs: []string{Leases}, check: refusedSaveReleasesNothing},
		{name: "lease/deleteNeedsIt", needs: []string{Leases}, check: deleteNeedsLease},
		{name: "lease/goesWithItsSession", needs: []string{Leases}, check: leaseGoesWithItsSession},
		{name: "lease/badRequestsAreRefused", needs: []string{Leases}, check: badLeaseRequests},
		{name: "lease/expiresAndIsTakenOver", needs: timed, check: expiresAndIsTakenOver},
		{name: "lease/lateWritesAreFencedForEver", needs: timed, check: lateWritesAreFenced},
		{name: "lease/renewingProlongsIt", needs: timed, check: renewingProlongs},
		{name: "lease/expiredButUntakenAdmitsItsHolder", needs: timed, check: expiredButUntaken},
		{name: "lease/saveWithoutFenceReleasesNothing", needs: timed, check: saveWithoutFenceReleasesNothing},
		{name: "lease/clockGoingBackEndsNothing", needs: timed, check: clockGoingBack},
		{name: "lease/ofAClockThatWasAheadIsOver", needs: timed, check: leaseOfAClockAhead},
	}
}

// leaseOfAClockAhead takes a lease while the clock is years ahead. Once the clock
// is right, nobody waits for that moment.
func leaseOfAClockAhead(t testing.TB, d Data) {
	st := d.Open(t)
	leases := ability[store.Leases](t, st)
	s := create(t, st, newSession(t, "ahead"))
	right := d.Clock.Now()
	d.Clock.Advance(10 * 365 * 24 * time.Hour)
	old := acquire(t, st, ref("ahead"), "first")
	d.Clock.Set(right)
	if l, live, err := leases.Holding(t.Context(), ref("ahead")); err != nil || live {
		t.Errorf("holding: %+v, %t, %v; want nobody", l, live, err)
	}
	if _, err := leases.Renew(t.Context(), ref("ahead"), old, admission.MaxLength); err != nil {
		t.Errorf("the holder cannot renew it: %v", err)
	}
	if _, live, err := leases.Holding(t.Context(), ref("ahead")); err != nil || !live {
		t.Errorf("the longest lease is not live: %t, %v", live, err)
	}
	d.Clock.Set(right.Add(-time.Minute))
	l := acquire(t, st, ref("ahead"), "second")
	if l.Token <= old.Token {
		t.Errorf("token %d after %d", l.Token, old.Token)
	}
	_, err := st.Save(t.Context(), withNote(t, s, "late"), store.Commit{Fence: old.Token})
	wantErr(t, "save under the old lease", err, session.ErrFenced)
}

func oneHolderAtATime(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	create(t, open[0], newSession(t, "held"))
	l := acquire(t, open[0], ref("held"), "first")
	for _, holder := range []string{"second", "first"} {
		_, err := ability[store.Leases](t, open[1]).Acquire(t.Context(), ref("held"), holder, time.Minute)
		var busy *session.BusyError
		if !errors.As(err, &busy) || busy.Holder != "first" || busy.ID != "held" || !busy.Until.Equal(l.Until) {
			t.Errorf("acquire by %s of a held lease: %v, want BusyError of first until %s", holder, err, l.Until)
		}
	}
	have, live, err := ability[store.Leases](t, open[1]).Holding(t.Context(), ref("held"))
	if err != nil || !live || have.Token != l.Token || have.Holder != "first" || !have.Until.Equal(l.Until) {
		t.Errorf("holding: %+v, %t, %v; want %+v", have, live, err, l)
	}
}

func ofManyAcquirersOneWins(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "prize"))
	errs := runTogether(t, d, writers, func(i int, st store.Store) error {
		_, err := ability[store.Leases](t, st).Acquire(t.Context(), ref("prize"), fmt.Sprint(i), time.Hour)
		return err
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantErr(t, "acquire", err, session.ErrBusy)
	}
	if won != 1 {
		t.Errorf("%d holders of one lease", won)
	}
}

func tokensGrow(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	last := int64(0)
	for round := range 6 {
		st := open[round%2]
		id := fmt.Sprintf("s%d", round%3)
		if round < 3 {
			create(t, st, newSession(t, id))
		}
		l := acquire(t, st, ref(id), "me")
		if l.Token <= last {
			t.Errorf("token %d after %d", l.Token, last)
		}
		last = l.Token
		if err := ability[store.Leases](t, st).Release(t.Context(), ref(id), l); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
}

func writersWithoutLeaseAreBusy(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "held"))
	l := acquire(t, st, ref("held"), "worker")
	_, err := st.Save(t.Context(), s, commit(s, "test"))
	var busy *session.BusyError
	if !errors.As(err, &busy) || busy.Holder != "worker" {
		t.Errorf("save without the lease: %v, want BusyError of worker", err)
	}
	if tails, ok := st.(store.Tails); ok {
		_, err = tails.Append(t.Context(), withNote(t, s, "x"), store.Append{})
		wantErr(t, "append without the lease", err, session.ErrBusy)
	}
	c := commit(s, "test")
	c.Fence = l.Token
	saved, err := st.Save(t.Context(), withNote(t, s, "worked"), c)
	if err != nil {
		t.Fatalf("save by the holder: %v", err)
	}
	wantSame(t, load(t, st, ref("held")), saved)
}

// wantFenced fails the test unless every kind of write with a token is refused.
func wantFenced(t testing.TB, st store.Store, s session.Session, token int64) {
	t.Helper()
	c := commit(s, "late")
	c.Fence = token
	_, err := st.Save(t.Context(), withNote(t, s, "late"), c)
	var f *session.FencedError
	if !errors.As(err, &f) || f.Token != token {
		t.Errorf("save under token %d: %v, want FencedError", token, err)
	}
	if tails, ok := st.(store.Tails); ok {
		_, err = tails.Append(t.Context(), withNote(t, s, "late"), store.Append{Fence: token})
		wantErr(t, "append under an old token", err, session.ErrFenced)
	}
	_, err = ability[store.Leases](t, st).Renew(t.Context(), store.RefOf(s), store.Lease{Token: token}, time.Minute)
	wantErr(t, "renewal of an old token", err, session.ErrFenced)
	wantSame(t, load(t, st, store.RefOf(s)), s)
}

func releasedTokenIsFenced(t testing.TB, d Data) {
	st := d.Open(t)
	leases := ability[store.Leases](t, st)
	s := create(t, st, newSession(t, "given"))
	old := acquire(t, st, ref("given"), "first")
	for range 2 {
		if err := leases.Release(t.Context(), ref("given"), old); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
	if _, live, err := leases.Holding(t.Context(), ref("given")); live || err != nil {
		t.Errorf("held after release: %t, %v", live, err)
	}
	wantFenced(t, st, s, old.Token)
	newer := acquire(t, st, ref("given"), "second")
	if err := leases.Release(t.Context(), ref("given"), old); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
	if have, live, err := leases.Holding(t.Context(), ref("given")); !live || have.Token != newer.Token || err != nil {
		t.Errorf("an old release ended the new lease: %+v, %t, %v", have, live, err)
	}
	wantFenced(t, st, s, old.Token)
}

func saveCanRelease(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "done"))
	l := acquire(t, st, ref("done"), "worker")
	c := commit(s, "test")
	c.Fence, c.Release = l.Token, true
	s, err := st.Save(t.Context(), withNote(t, s, "done"), c)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	if _, live, err := ability[store.Leases](t, st).Holding(t.Context(), ref("done")); live || err != nil {
		t.Errorf("held after a save that released: %t, %v", live, err)
	}
	wantFenced(t, st, s, l.Token)
	acquire(t, st, ref("done"), "next")
}

func refusedSaveReleasesNothing(t testing.TB, d Data) {
	st := d.Open(t)
	old := create(t, st, newSession(t, "kept"))
	save(t, st, withNote(t, old, "newer"))
	l := acquire(t, st, ref("kept"), "worker")
	c := commit(old, "test")
	c.Fence, c.Release = l.Token, true
	_, err := st.Save(t.Context(), old, c)
	wantConflict(t, "stale save by the holder", err, session.ReasonStale)
	if have, live, err := ability[store.Leases](t, st).Holding(t.Context(), ref("kept")); !live || have.Token != l.Token || err != nil {
		t.Errorf("the refused save ended the lease: %+v, %t, %v", have, live, err)
	}
}

func deleteNeedsLease(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "worked-on"))
	l := acquire(t, st, ref("worked-on"), "worker")
	for _, fence := range []int64{0, l.Token + 1} {
		wantErr(t, fmt.Sprintf("delete with fence %d", fence), st.Delete(t.Context(), ref("worked-on"), fence), session.ErrBusy)
	}
	wantSame(t, load(t, st, ref("worked-on")), s)
	if err := st.Delete(t.Context(), ref("worked-on"), l.Token); err != nil {
		t.Errorf("delete by the holder: %v", err)
	}
}

func leaseGoesWithItsSession(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "remade"))
	l := acquire(t, st, ref("remade"), "worker")
	if err := st.Delete(t.Context(), ref("remade"), l.Token); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, err := ability[store.Leases](t, st).Renew(t.Context(), ref("remade"), l, time.Minute)
	wantErr(t, "renewal without a session", err, session.ErrFenced)
	if err := ability[store.Leases](t, st).Release(t.Context(), ref("remade"), l); err != nil {
		t.Errorf("release without a session: %v", err)
	}
	s := create(t, st, newSessionFrom(t, session.Identity{ID: "remade", AgentID: "second"}))
	wantFenced(t, st, s, l.Token)
	if next := acquire(t, st, ref("remade"), "next"); next.Token <= l.Token {
		t.Errorf("token %d after %d", next.Token, l.Token)
	}
}

func badLeaseRequests(t testing.TB, d Data) {
	st := d.Open(t)
	leases := ability[store.Leases](t, st)
	_, err := leases.Acquire(t.Context(), ref("nobody"), "me", time.Minute)
	wantErr(t, "acquire without a session", err, session.ErrNotFound)
	_, _, err = leases.Holding(t.Context(), ref("nobody"))
	wantErr(t, "holding without a session", err, session.ErrNotFound)
	create(t, st, newSession(t, "held"))
	for _, length := range []time.Duration{0, -time.Second, admission.MaxLength + 1} {
		_, err := leases.Acquire(t.Context(), ref("held"), "me", length)
		wantErr(t, fmt.Sprintf("acquire for %s", length), err, session.ErrInvalid)
	}
	_, err = leases.Renew(t.Context(), ref("held"), store.Lease{}, time.Minute)
	wantErr(t, "renewal of no lease", err, session.ErrFenced)
}

func expiresAndIsTakenOver(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	create(t, open[0], newSession(t, "expiring"))
	first, err := ability[store.Leases](t, open[0]).Acquire(t.Context(), ref("expiring"), "first", 10*time.Second)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	if want := d.Clock.Now().Add(10 * time.Second); !first.Until.Equal(want) {
		t.Errorf("until %s, want %s", first.Until, want)
	}
	d.Clock.Advance(10*time.Second - time.Microsecond)
	_, err = ability[store.Leases](t, open[1]).Acquire(t.Context(), ref("expiring"), "second", time.Second)
	wantErr(t, "acquire a moment before the end", err, session.ErrBusy)
	d.Clock.Advance(time.Microsecond)
	if _, live, err := ability[store.Leases](t, open[1]).Holding(t.Context(), ref("expiring")); live || err != nil {
		t.Errorf("held at its end: %t, %v", live, err)
	}
	second := acquire(t, open[1], ref("expiring"), "second")
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
}

func lateWritesAreFenced(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	s := create(t, open[0], newSession(t, "paused"))
	old, err := ability[store.Leases](t, open[0]).Acquire(t.Context(), ref("paused"), "sleeper", 10*time.Second)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	d.Clock.Advance(time.Minute)
	newer, err := ability[store.Leases](t, open[1]).Acquire(t.Context(), ref("paused"), "second", 10*time.Second)
	if err != nil {
		t.Fatalf("take over: %v", err)
	}
	wantFenced(t, open[0], s, old.Token) // while the second works
	d.Clock.Advance(time.Minute)
	wantFenced(t, open[0], s, old.Token) // when its lease ran out too
	if err := ability[store.Leases](t, open[1]).Release(t.Context(), ref("paused"), newer); err != nil {
		t.Fatalf("release: %v", err)
	}
	wantFenced(t, open[0], s, old.Token) // when nobody holds one
	d.Clock.Advance(365 * 24 * time.Hour)
	wantFenced(t, open[0], s, old.Token)
}

func renewingProlongs(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "renewed"))
	l, err := ability[store.Leases](t, st).Acquire(t.Context(), ref("renewed"), "me", 10*time.Second)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	for range 5 {
		d.Clock.Advance(7 * time.Second)
		renewed, err := ability[store.Leases](t, st).Renew(t.Context(), ref("renewed"), l, 10*time.Second)
		if err != nil {
			t.Fatalf("renew: %v", err)
		}
		if want := d.Clock.Now().Add(10 * time.Second); renewed.Token != l.Token || renewed.Holder != "me" || !renewed.Until.Equal(want) {
			t.Errorf("renewed to %+v, want token %d of me until %s", renewed, l.Token, want)
		}
		_, err = ability[store.Leases](t, st).Acquire(t.Context(), ref("renewed"), "other", time.Second)
		wantErr(t, "acquire of a renewed lease", err, session.ErrBusy)
	}
}

func expiredButUntaken(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "late"))
	l, err := ability[store.Leases](t, st).Acquire(t.Context(), ref("late"), "me", time.Second)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	d.Clock.Advance(time.Hour)
	c := commit(s, "test")
	c.Fence = l.Token
	s, err = st.Save(t.Context(), withNote(t, s, "late but alone"), c)
	if err != nil {
		t.Fatalf("save under a lease that ran out and nobody took: %v", err)
	}
	s = save(t, st, withNote(t, s, "no lease lives")) // a writer without one is free to go
	if _, err := ability[store.Leases](t, st).Renew(t.Context(), ref("late"), l, time.Minute); err != nil {
		t.Errorf("renewal of a lease nobody took: %v", err)
	}
	_, err = st.Save(t.Context(), s, commit(s, "test"))
	wantErr(t, "save beside the revived lease", err, session.ErrBusy)
}

// A commit releases its writer's own lease, and one without a fence has none.
func saveWithoutFenceReleasesNothing(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "not-mine"))
	l, err := ability[store.Leases](t, st).Acquire(t.Context(), ref("not-mine"), "slow", time.Second)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	d.Clock.Advance(time.Hour)
	c := commit(s, "test")
	c.Release = true
	if _, err := st.Save(t.Context(), withNote(t, s, "without a lease"), c); err != nil {
		t.Fatalf("save beside a lease that ran out: %v", err)
	}
	if _, err := ability[store.Leases](t, st).Renew(t.Context(), ref("not-mine"), l, time.Minute); err != nil {
		t.Errorf("renewal after another writer's release: %v", err)
	}
}

func clockGoingBack(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "back"))
	l := acquire(t, st, ref("back"), "me")
	d.Clock.Advance(-23 * time.Hour) // more than admission.MaxLength would end it
	_, err := ability[store.Leases](t, st).Acquire(t.Context(), ref("back"), "other", time.Second)
	wantErr(t, "acquire after the clock went back", err, session.ErrBusy)
	c := commit(s, "test")
	c.Fence, c.Release = l.Token, true
	if _, err := st.Save(t.Context(), withNote(t, s, "x"), c); err != nil {
		t.Fatalf("save by the holder: %v", err)
	}
	if next := acquire(t, st, ref("back"), "other"); next.Token <= l.Token {
		t.Errorf("token %d after %d", next.Token, l.Token)
	}
}
