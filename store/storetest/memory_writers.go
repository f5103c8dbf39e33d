package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func ofManyComparersOneWins(t testing.TB, d Data) {
	st := d.Open(t)
	for round := range int64(5) {
		entries := make([]store.Entry, writers)
		errs := runTogether(t, d, writers, func(i int, st store.Store) (err error) {
			m := newMemo("contended", fmt.Sprint(i))
			m.IfVersion, m.At = version(round), start()
			entries[i], err = ability[store.Memories](t, st).Remember(t.Context(), user("ann"), m)
			return err
		})
		winner := oneWinner(t, errs, session.ReasonStaleEntry)
		sameEntry(t, wantEntry(t, st, user("ann"), "contended", 0, fmt.Sprint(winner)), entries[winner])
		if got := entries[winner].Version; got != round+1 {
			t.Fatalf("the winner of round %d wrote version %d", round, got)
		}
	}
}

func noMemoryIsLost(t testing.TB, d Data) {
	st := d.Open(t)
	const rounds = 5
	entries := make([][rounds]store.Entry, writers)
	errs := runTogether(t, d, writers, func(i int, st store.Store) (err error) {
		for n := range rounds {
			m := newMemo("shared", fmt.Sprintf(`"%d of %d"`, n, i))
			m.At = start()
			if entries[i][n], err = ability[store.Memories](t, st).Remember(t.Context(), user("ann"), m); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("a writer failed: %v", err)
	}
	var versions []int64
	for i := range entries {
		for n := range entries[i] {
			e := entries[i][n]
			versions = append(versions, e.Version)
			sameEntry(t, wantEntry(t, st, user("ann"), "shared", e.Version, string(e.Value)), e)
		}
	}
	slices.Sort(versions)
	for i, v := range versions {
		if v != int64(i+1) {
			t.Fatalf("versions %d, want 1 to %d", versions, writers*rounds)
		}
	}
}

func ofOneCallOneWrites(t testing.TB, d Data) {
	st := d.Open(t)
	entries := make([]store.Entry, writers)
	errs := runTogether(t, d, writers, func(i int, st store.Store) (err error) {
		m := memoOfCall("s", "call_1", "once", fmt.Sprint(i))
		m.At = start()
		entries[i], err = ability[store.Memories](t, st).Remember(t.Context(), user("ann"), m)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("a writer failed: %v", err)
	}
	for _, e := range entries {
		sameEntry(t, e, entries[0])
	}
	sameEntry(t, wantEntry(t, st, user("ann"), "once", 0, string(entries[0].Value)), entries[0])
	wantEntry(t, st, user("ann"), "once", 2, "")
}

func entriesAreCopies(t testing.TB, d Data) {
	st := d.Open(t)
	mine := newMemo("key", `"kept"`)
	scribbled := mustRemember(t, st, user("ann"), mine)
	mine.Value[1], scribbled.Value[1] = 'X', 'Y'
	read := wantEntry(t, st, user("ann"), "key", 0, `"kept"`)
	read.Value[1] = 'Z'
	entries, err := ability[store.Memories](t, st).Entries(t.Context(), user("ann"), "", "", 0)
	if err != nil || len(entries) != 1 || string(entries[0].Value) != `"kept"` {
		t.Fatalf("entries: %s, %v", encode(t, entries), err)
	}
	entries[0].Value[1] = 'Q'
	wantEntry(t, st, user("ann"), "key", 1, `"kept"`)
}

func memorySurvives(t testing.TB, d Data) {
	st := d.Open(t)
	first := mustRemember(t, st, user("ann"), memoOfCall("s", "call_1", "key", `"old"`))
	second := mustRemember(t, st, user("ann"), newMemo("key", `"tea"`))
	mustRemember(t, st, user("ann"), newMemo("gone", `1`))
	forget(t, st, user("ann"), "gone")
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	st = d.Open(t)
	sameEntry(t, wantEntry(t, st, user("ann"), "key", 0, `"tea"`), second)
	sameEntry(t, wantEntry(t, st, user("ann"), "key", 1, `"old"`), first)
	sameEntry(t, mustRemember(t, st, user("ann"), memoOfCall("s", "call_1", "key", `"again"`)), first)
	if e := mustRemember(t, st, user("ann"), newMemo("gone", `2`)); e.Version != 2 {
		t.Errorf("a forgotten key goes on at version %d, want 2", e.Version)
	}
	wantFound(t, st, store.Search{Words: store.Words("tea"), User: "ann"}, "key")
}

func memoryOutlivesSession(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSessionFrom(t, session.Identity{ID: "writer", UserID: "ann"}))
	e := mustRemember(t, st, user("ann"), memoOfCall("writer", "call_1", "key", `"tea"`))
	if err := st.Delete(t.Context(), ref("writer"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	sameEntry(t, wantEntry(t, st, user("ann"), "key", 0, `"tea"`), e)
	wantFound(t, st, store.Search{Words: store.Words("tea"), User: "ann"}, "key")
	if e := mustRemember(t, st, user("ann"), memoOfCall("never-there", "call_1", "key", `2`)); e.Version != 2 {
		t.Errorf("a session that is not here wrote version %d", e.Version)
	}
}

func memoryRefuses(t testing.TB, d Data) {
	st := d.Open(t)
	memories := ability[store.Memories](t, st)
	mustRemember(t, st, user("ann"), newMemo("key", "1"))
	every := func(ctx context.Context) map[string]error {
		errs := memoryCalls(ctx, memories, user("ann"), "key")
		_, errs["ForgetAll"] = memories.ForgetAll(ctx, user("ann"), false)
		_, errs["Search"] = memories.Search(ctx, session.DefaultTenant, store.Search{Words: []string{"x"}, User: "ann"})
		return errs
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range every(ctx) {
		wantErr(t, call+" with an ended context", err, context.Canceled)
	}
	if e := wantEntry(t, st, user("ann"), "key", 0, "1"); e.Version != 1 {
		t.Errorf("version %d after calls with an ended context", e.Version)
	}
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for call, err := range every(t.Context()) {
		wantErr(t, call+" after Close", err, session.ErrClosed)
	}
}
