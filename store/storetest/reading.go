package storetest

import (
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Reading is everything that a store returns about one session. It is equal for
// two stores with the same session, and before and after a migration.
type Reading struct {
	Ref      store.Ref
	Info     session.Info
	Load     session.Session
	Tail     session.Session
	Versions []session.Session
	Whole    session.Session
	Log      []session.LogEntry
	Commits  []store.CommitInfo
	Inbox    []store.Item
	Keys     map[string]store.KeyUse
	Lease    *store.Lease
}

// Read reads everything there is of a session of up to a thousand changes, and
// what is known of some keys.
func Read(t testing.TB, st Full, r store.Ref, keys ...string) Reading {
	t.Helper()
	ctx, w := t.Context(), Reading{Ref: r, Keys: map[string]store.KeyUse{}}
	var errs [8]error
	w.Info, errs[0] = st.Info(ctx, r)
	w.Load, errs[1] = st.Load(ctx, r, false)
	w.Tail, errs[2] = st.Load(ctx, r, true)
	w.Whole, errs[3] = st.LoadWhole(ctx, r, 0)
	w.Log, errs[4] = st.Log(ctx, r, 0, 1000)
	w.Commits, errs[5] = st.Commits(ctx, r, 0, 1000)
	w.Inbox, errs[6] = st.Inbox(ctx, r)
	lease, held, err := st.Holding(ctx, r)
	if errs[7] = err; held {
		w.Lease = &lease
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("read %v: %v", r, err)
	}
	for version := int64(1); version <= w.Info.Version; version++ {
		s, err := st.LoadAt(ctx, r, version)
		if err != nil {
			t.Fatalf("version %d of %v: %v", version, r, err)
		}
		w.Versions = append(w.Versions, s)
	}
	for _, name := range keys {
		use, known, err := st.Key(ctx, r, name)
		if err != nil {
			t.Fatalf("key %s of %v: %v", name, r, err)
		}
		if known {
			w.Keys[name] = use
		}
	}
	return w
}
