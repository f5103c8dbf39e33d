package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func wakeBehaviours() []behaviour {
	return []behaviour{
		{name: "wake/bellRingsAfterEveryWrite", needs: []string{Wakes}, check: bellRings},
		{name: "wake/oneRingWaits", needs: []string{Wakes}, check: oneRingWaits},
		{name: "wake/stoppedBellIsSilent", needs: []string{Wakes}, check: stoppedBell},
		{name: "wake/wokenReaderFindsTheChange", needs: []string{Wakes, Logs, Tails}, check: wokenReaderFinds},
	}
}

// patience bounds the wait for a ring that must come.
const patience = 10 * time.Second

// wantRing fails the test unless the bell rings soon.
func wantRing(t testing.TB, what string, bell <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-bell:
	case <-timer.C:
		t.Errorf("no ring after %s", what)
	}
}

// drainBell empties a bell after all rings have arrived.
func drainBell(bell <-chan struct{}) {
	select {
	case <-bell:
	default:
	}
}

func bellRings(t testing.TB, d Data) {
	st := d.Open(t)
	bell, stop := ability[store.Wakes](t, st).Bell(ref("watched"))
	defer stop()
	second, stopSecond := ability[store.Wakes](t, st).Bell(ref("watched"))
	defer stopSecond()
	after := func(what string) {
		t.Helper()
		wantRing(t, what, bell)
		wantRing(t, what+", second bell", second)
	}
	s := create(t, st, newSession(t, "watched"))
	after("create")
	s = save(t, st, withNote(t, s, "x"))
	after("save")
	if _, ok := st.(store.Tails); ok {
		s = mustAppend(t, st, withNote(t, s, "y"))
		after("append")
	}
	if _, ok := st.(store.Inboxes); ok {
		post(t, st, ref("watched"), item("a"))
		after("post")
	}
	if leases, ok := st.(store.Leases); ok {
		l := acquire(t, st, ref("watched"), "me")
		after("acquire")
		if err := leases.Release(t.Context(), ref("watched"), l); err != nil {
			t.Fatalf("release: %v", err)
		}
		after("release")
	}
	if err := st.Delete(t.Context(), ref("watched"), 0); err != nil {
		t.Fatalf("delete %s: %v", s.ID(), err)
	}
	after("delete")
}

func oneRingWaits(t testing.TB, d Data) {
	st := d.Open(t)
	bell, stop := ability[store.Wakes](t, st).Bell(ref("slow"))
	defer stop()
	s := create(t, st, newSession(t, "slow"))
	for range 5 { // nobody listens, nobody blocks
		s = save(t, st, withNote(t, s, "x"))
	}
	wantRing(t, "six writes", bell)
	if cap(bell) != 1 {
		t.Errorf("the bell holds %d rings, want 1", cap(bell))
	}
}

func stoppedBell(t testing.TB, d Data) {
	st := d.Open(t)
	bell, stop := ability[store.Wakes](t, st).Bell(ref("quiet"))
	other, stopOther := ability[store.Wakes](t, st).Bell(ref("quiet"))
	defer stopOther()
	s := create(t, st, newSession(t, "quiet"))
	wantRing(t, "create", bell)
	wantRing(t, "create", other)
	stop()
	stop()
	drainBell(bell)
	save(t, st, withNote(t, s, "x"))
	wantRing(t, "save, other bell", other)
	select {
	case _, ok := <-bell:
		if ok {
			t.Error("a stopped bell rang")
		}
	default:
	}
}

// wokenReaderFinds waits for rings only: after each the log has what the
// writer wrote before it.
func wokenReaderFinds(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "live"))
	bell, stop := ability[store.Wakes](t, st).Bell(ref("live"))
	defer stop()
	const rounds = 20
	wrote := make(chan error, 1)
	go func() {
		var err error
		for range rounds {
			if s, err = ability[store.Tails](t, st).Append(t.Context(), withNote(t, s, "x"), store.Append{}); err != nil {
				break
			}
		}
		wrote <- err
	}()
	after, want := int64(1), int64(1+rounds)
	for after < want {
		entries, err := ability[store.Logs](t, st).Log(t.Context(), ref("live"), after, 0)
		if err != nil {
			t.Errorf("log: %v", err)
			break
		}
		for _, e := range entries {
			if e.Seq != after+1 || e.Change.Kind() != (session.MetadataWritten{}).Kind() {
				t.Errorf("seq %d (%s) after %d", e.Seq, e.Change.Kind(), after)
			}
			after = e.Seq
		}
		if len(entries) > 0 {
			continue
		}
		if wantRing(t, "an append", bell); t.Failed() {
			break
		}
	}
	if err := <-wrote; err != nil {
		t.Errorf("append: %v", err)
	}
}
