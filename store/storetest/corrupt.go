package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func corruptBehaviours() []behaviour {
	return []behaviour{
		{name: "corrupt/breaksItsSessionAlone", needs: []string{corruptHook}, check: corruptBreaksItselfAlone},
		{name: "corrupt/isNeverOverwritten", needs: []string{corruptHook}, check: corruptIsNotOverwritten},
		{name: "corrupt/canBeDeleted", needs: []string{corruptHook}, check: corruptCanBeDeleted},
		{name: "newer/isRefusedAndLeftAlone", needs: []string{newerHook}, check: newerIsRefused},
	}
}

func corruptBreaksItselfAlone(t testing.TB, d Data) {
	st := d.Open(t)
	good := create(t, st, withMessage(t, newSession(t, "good"), "hello"))
	create(t, st, withMessage(t, newSession(t, "bad"), "hello"))
	also := create(t, st, newSession(t, "also-good"))
	d.Corrupt(t, ref("bad"))
	anew := d.Open(t) // the other may know the session by heart
	_, err := anew.Load(t.Context(), ref("bad"), false)
	wantCorrupt(t, "load", err)
	_, err = anew.Load(t.Context(), ref("bad"), true)
	wantCorrupt(t, "load with tail", err)
	for _, st := range []store.Store{st, anew} {
		_, err = st.Info(t.Context(), ref("bad"))
		wantCorrupt(t, "info", err)
		wantSame(t, load(t, st, ref("good")), good)
		wantSame(t, save(t, st, load(t, st, ref("also-good"))), load(t, st, ref("also-good")))
		listedAsCorrupt(t, st, "bad", []string{"also-good", "good"})
	}
	if got := load(t, st, ref("also-good")).Version(); got != also.Version()+2 {
		t.Errorf("the good neighbour is at version %d", got)
	}
}

func wantCorrupt(t testing.TB, what string, err error) {
	t.Helper()
	var c *session.CorruptError
	if !errors.As(err, &c) || c.ID != "bad" || c.Reason == "" {
		t.Errorf("%s of corrupt data: %v, want a CorruptError that names session and reason", what, err)
	}
}

// listedAsCorrupt expects a listing, with and without a metadata filter, that
// reports one session and shows the others.
func listedAsCorrupt(t testing.TB, st store.Store, id string, others []string) {
	t.Helper()
	for _, q := range []store.Query{{Order: store.IDAsc}, {Order: store.IDAsc, Metadata: map[string]string{"a": "b"}}} {
		page, err := st.List(t.Context(), session.DefaultTenant, q)
		if err != nil {
			t.Errorf("listing beside %s: %v", id, err)
			continue
		}
		if len(page.Corrupt) != 1 || page.Corrupt[0].ID != id {
			t.Errorf("reported as corrupt: %v, want %s", page.Corrupt, id)
		}
		var have []string
		for _, i := range page.Items {
			have = append(have, i.ID)
		}
		if q.Metadata == nil && !slices.Equal(have, others) {
			t.Errorf("listed: %v, want %v", have, others)
		}
	}
	for q := (store.Query{Order: store.IDAsc, Limit: 1}); ; {
		page, err := st.List(t.Context(), session.DefaultTenant, q)
		if err != nil || len(page.Corrupt) != 1 || page.Corrupt[0].ID != id {
			t.Errorf("a page of one reports %v as corrupt, %v; want %s", page.Corrupt, err, id)
			return
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return
		}
	}
}

func corruptIsNotOverwritten(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "bad"))
	d.Corrupt(t, ref("bad"))
	_, err := st.Save(t.Context(), withNote(t, s, "x"), commit(s, "test"))
	wantCorrupt(t, "save", err)
	if tails, ok := st.(store.Tails); ok {
		_, err := tails.Append(t.Context(), withNote(t, s, "x"), store.Append{})
		wantCorrupt(t, "append", err)
	}
	_, err = d.Open(t).Load(t.Context(), ref("bad"), true)
	wantCorrupt(t, "load after refused writes", err)
}

func corruptCanBeDeleted(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "bad"))
	d.Corrupt(t, ref("bad"))
	if err := st.Delete(t.Context(), ref("bad"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, err := st.Load(t.Context(), ref("bad"), false)
	wantErr(t, "load", err, session.ErrNotFound)
	again := create(t, st, newSession(t, "bad"))
	wantSame(t, load(t, st, ref("bad")), again)
}

func newerIsRefused(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "newer"))
	create(t, st, newSession(t, "known"))
	d.Newer(t, ref("newer"))
	st = d.Open(t)
	for range 2 { // a refused write must not make it readable
		_, err := st.Load(t.Context(), ref("newer"), false)
		wantErr(t, "load", err, session.ErrNewerFormat)
		_, err = st.Info(t.Context(), ref("newer"))
		wantErr(t, "info", err, session.ErrNewerFormat)
		_, err = st.Save(t.Context(), withNote(t, s, "downgraded"), commit(s, "test"))
		wantErr(t, "save", err, session.ErrNewerFormat)
		if tails, ok := st.(store.Tails); ok {
			_, err = tails.Append(t.Context(), withNote(t, s, "downgraded"), store.Append{})
			wantErr(t, "append", err, session.ErrNewerFormat)
		}
		listedAsCorrupt(t, st, "newer", []string{"known"})
	}
	_, err := st.Create(t.Context(), newSession(t, "newer"), store.Commit{})
	wantConflict(t, "create over a newer format", err, session.ReasonExists)
}
