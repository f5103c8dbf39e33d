package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func keysBehaviours() []behaviour {
	return []behaviour{
		{name: "keys/areWrittenWithTheSave", needs: []string{Keys}, check: keysWithSave},
		{name: "keys/refusedSaveWritesNone", needs: []string{Keys}, check: refusedSaveWritesNoKey},
		{name: "keys/ofTheTailGetTheirVersionWhenSealed", needs: []string{Keys, Tails}, check: keysOfTail},
		{name: "keys/discardedTailForgetsThem", needs: []string{Keys, Tails}, check: discardForgetsKeys},
		{name: "keys/firstUseCounts", needs: []string{Keys}, check: firstUseCounts},
		{name: "keys/ofManyUsersOneIsRemembered", needs: []string{Keys}, check: ofManyUsersOne},
		{name: "keys/areKeptForADay", needs: []string{Keys, settableClock}, check: keysAreKept},
		{name: "keys/belongToOneSession", needs: []string{Keys}, check: keysBelongToOneSession},
		{name: "keys/badNamesAreRefused", needs: []string{Keys}, check: badKeys},
	}
}

// commitWithKeys makes a commit with idempotency keys.
func commitWithKeys(s session.Session, keys ...store.Key) store.Commit {
	c := commit(s, "keyed")
	c.Keys = keys
	return c
}

// wantKey fails the test unless a key is known with this use; version -1
// means that it is not known.
func wantKey(t testing.TB, st store.Store, r store.Ref, name, fingerprint string, version int64) {
	t.Helper()
	use, known, err := ability[store.Keys](t, st).Key(t.Context(), r, name)
	switch {
	case err != nil:
		t.Errorf("key %q: %v", name, err)
	case known != (version >= 0):
		t.Errorf("key %q known: %t", name, known)
	case known && (use.Version != version || use.Fingerprint != fingerprint):
		t.Errorf("key %q is of %q at version %d, want %q at %d", name, use.Fingerprint, use.Version, fingerprint, version)
	}
}

func keysWithSave(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	fresh := newSession(t, "keyed")
	s, err := open[0].Create(t.Context(), fresh, commitWithKeys(fresh, store.Key{Name: "made", Fingerprint: "create"}))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	hostile := "'\"; drop table keys; -- ü €"
	next := withNote(t, s, "x")
	if _, err = open[0].Save(t.Context(), next, commitWithKeys(next, store.Key{Name: hostile, Fingerprint: "one"}, store.Key{Name: "b", Fingerprint: "two"})); err != nil {
		t.Fatalf("save: %v", err)
	}
	wantKey(t, open[1], ref("keyed"), "made", "create", 1)
	wantKey(t, open[1], ref("keyed"), hostile, "one", 2)
	wantKey(t, open[1], ref("keyed"), "b", "two", 2)
	wantKey(t, open[1], ref("keyed"), "B", "", -1)
	wantKey(t, open[1], ref("keyed"), "", "", -1)
	_, _, err = ability[store.Keys](t, open[1]).Key(t.Context(), ref("nobody"), "b")
	wantErr(t, "key without a session", err, session.ErrNotFound)
}

func refusedSaveWritesNoKey(t testing.TB, d Data) {
	st := d.Open(t)
	old := create(t, st, newSession(t, "refused"))
	save(t, st, withNote(t, old, "newer"))
	_, err := st.Save(t.Context(), old, commitWithKeys(old, store.Key{Name: "k", Fingerprint: "f"}))
	wantConflict(t, "stale save", err, session.ReasonStale)
	wantKey(t, st, ref("refused"), "k", "", -1)
}

func keysOfTail(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "tailed"))
	s, err := ability[store.Tails](t, st).Append(t.Context(), withMessage(t, s, "hello"), store.Append{Keys: []store.Key{{Name: "k", Fingerprint: "f"}}})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	wantKey(t, st, ref("tailed"), "k", "f", 0)
	if _, err := st.Save(t.Context(), s, commitWithKeys(s, store.Key{Name: "k", Fingerprint: "f"}, store.Key{Name: "late", Fingerprint: "g"})); err != nil {
		t.Fatalf("save: %v", err)
	}
	wantKey(t, st, ref("tailed"), "k", "f", 2)
	wantKey(t, st, ref("tailed"), "late", "g", 2)
	save(t, st, withNote(t, load(t, st, ref("tailed")), "later"))
	wantKey(t, st, ref("tailed"), "k", "f", 2)
}

func discardForgetsKeys(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "forgotten"))
	add := func(s session.Session, name string) session.Session {
		s, err := ability[store.Tails](t, st).Append(t.Context(), withMessage(t, s, name), store.Append{Keys: []store.Key{{Name: name, Fingerprint: "f"}}})
		if err != nil {
			t.Fatalf("append: %v", err)
		}
		return s
	}
	kept := add(s, "kept")
	refused := add(kept, "refused")
	discard(t, st, kept, kept.Seq()+1, refused.Seq())
	wantKey(t, st, ref("forgotten"), "kept", "f", 0)
	wantKey(t, st, ref("forgotten"), "refused", "", -1)
	save(t, st, add(loadTail(t, st, ref("forgotten")), "refused"))
	wantKey(t, st, ref("forgotten"), "kept", "f", 2)
	wantKey(t, st, ref("forgotten"), "refused", "f", 2)
}

func firstUseCounts(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "first"))
	for _, fingerprint := range []string{"one", "two"} {
		var err error
		if s, err = st.Save(t.Context(), withNote(t, s, fingerprint), commitWithKeys(s, store.Key{Name: "k", Fingerprint: fingerprint})); err != nil {
			t.Fatalf("save: %v", err)
		}
	}
	wantKey(t, st, ref("first"), "k", "one", 2)
}

func ofManyUsersOne(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "raced"))
	for round := range 4 {
		from, name := s, fmt.Sprintf("key-%d", round)
		errs := runTogether(t, d, writers, func(i int, st store.Store) error {
			next := withNote(t, from, fmt.Sprint(i))
			_, err := st.Save(t.Context(), next, commitWithKeys(next, store.Key{Name: name, Fingerprint: fmt.Sprint(i)}))
			return err
		})
		winner := oneWinner(t, errs, session.ReasonStale)
		s = load(t, st, ref("raced"))
		wantKey(t, st, ref("raced"), name, fmt.Sprint(winner), s.Version())
	}
}

func keysAreKept(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "day"))
	next := withNote(t, s, "x")
	s, err := st.Save(t.Context(), next, commitWithKeys(next, store.Key{Name: "k", Fingerprint: "f"}))
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	for range 4 {
		d.Clock.Advance(6*time.Hour - time.Second)
		next := withNote(t, s, "more")
		name := fmt.Sprint(next.Seq())
		if s, err = st.Save(t.Context(), next, commitWithKeys(next, store.Key{Name: name, Fingerprint: "f"})); err != nil {
			t.Fatalf("save: %v", err)
		}
		wantKey(t, st, ref("day"), "k", "f", 2)
	}
}

func keysBelongToOneSession(t testing.TB, d Data) {
	st := d.Open(t)
	fresh := newSession(t, "mine")
	if _, err := st.Create(t.Context(), fresh, commitWithKeys(fresh, store.Key{Name: "k", Fingerprint: "f"})); err != nil {
		t.Fatalf("create: %v", err)
	}
	create(t, st, newSession(t, "theirs"))
	create(t, st, newSessionFrom(t, session.Identity{ID: "mine", Tenant: "other"}))
	wantKey(t, st, ref("theirs"), "k", "", -1)
	wantKey(t, st, store.Ref{Tenant: "other", ID: "mine"}, "k", "", -1)
	if err := st.Delete(t.Context(), ref("mine"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	create(t, st, newSessionFrom(t, session.Identity{ID: "mine", AgentID: "second"}))
	wantKey(t, st, ref("mine"), "k", "", -1)
}

func badKeys(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "picky"))
	for _, name := range []string{"", strings.Repeat("x", 256), "a\nb", "\xff"} {
		_, err := st.Save(t.Context(), s, commitWithKeys(s, store.Key{Name: name}))
		wantErr(t, fmt.Sprintf("save with key %q", name), err, session.ErrInvalid)
	}
	wantSame(t, load(t, st, ref("picky")), s)
}
