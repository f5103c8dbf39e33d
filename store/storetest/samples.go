package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// start is when the sessions of the suite are made.
func start() time.Time { return time.Date(2026, 3, 4, 5, 0, 0, 654321000, time.UTC) }

// ref is a session of the default tenant.
func ref(id string) store.Ref { return store.Ref{Tenant: session.DefaultTenant, ID: id} }

// newSession is a small version-0 session of the default tenant.
func newSession(t testing.TB, id string) session.Session {
	t.Helper()
	return newSessionFrom(t, session.Identity{ID: id})
}

// newSessionFrom makes a version-0 session and fills in what the identity leaves out.
func newSessionFrom(t testing.TB, b session.Identity) session.Session {
	t.Helper()
	if b.AgentID == "" {
		b.AgentID = "agent-of-" + b.ID
	}
	s, err := session.New(b, session.Definition{Name: "tester", SystemPrompt: "Be short.", Model: "test/model"}, session.Seed{}, start())
	if err != nil {
		t.Fatalf("make session %s: %v", b.ID, err)
	}
	return s
}

// withChanges applies changes and fails the test if they are refused.
func withChanges(t testing.TB, s session.Session, changes ...session.Change) session.Session {
	t.Helper()
	next, err := s.With(start().Add(time.Duration(s.Seq())*time.Second), changes...)
	if err != nil {
		t.Fatalf("change %s: %v", s.ID(), err)
	}
	return next
}

// withNote sets one metadata key: the smallest change.
func withNote(t testing.TB, s session.Session, value string) session.Session {
	t.Helper()
	return withChanges(t, s, session.MetadataWritten{Key: "note", Value: quote(t, value)})
}

// withMessage adds a user's message.
func withMessage(t testing.TB, s session.Session, text string) session.Session {
	t.Helper()
	id := fmt.Sprintf("m%d", s.Seq()+1)
	return withChanges(t, s, session.MessageAdded{Message: session.Message{ID: id, Role: session.RoleUser, Content: session.Text(text)}})
}

func quote(t testing.TB, text string) json.RawMessage {
	t.Helper()
	raw, err := session.JSON(text)
	if err != nil {
		t.Fatalf("quote: %v", err)
	}
	return raw
}

// ability is the store's ability A. Behaviours name it in their needs, so it is there.
func ability[A any](t testing.TB, st store.Store) A {
	t.Helper()
	a, ok := st.(A)
	if !ok {
		t.Fatalf("%T has no ability %v", st, reflect.TypeFor[A]())
	}
	return a
}

// commit describes a save of s.
func commit(s session.Session, action string) store.Commit {
	return store.Commit{
		ID: fmt.Sprintf("%s-%s-%d-%d", s.ID(), action, s.Version(), s.Seq()), Action: action, Actor: "suite",
		At: start().Add(time.Duration(s.Seq()) * time.Second),
	}
}

// create stores a version-0 session and expects it to work.
func create(t testing.TB, st store.Store, s session.Session) session.Session {
	t.Helper()
	created, err := st.Create(t.Context(), s, commit(s, "create"))
	if err != nil {
		t.Fatalf("create %s: %v", s.ID(), err)
	}
	return created
}

// save stores pending changes and expects it to work.
func save(t testing.TB, st store.Store, s session.Session) session.Session {
	t.Helper()
	saved, err := st.Save(t.Context(), s, commit(s, "test"))
	if err != nil {
		t.Fatalf("save %s: %v", s.ID(), err)
	}
	return saved
}

// mustAppend writes pending changes to the open tail.
func mustAppend(t testing.TB, st store.Store, s session.Session) session.Session {
	t.Helper()
	flushed, err := ability[store.Tails](t, st).Append(t.Context(), s, store.Append{})
	if err != nil {
		t.Fatalf("append to %s: %v", s.ID(), err)
	}
	return flushed
}

// load reads the last version and expects it to work.
func load(t testing.TB, st store.Store, r store.Ref) session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), r, false)
	if err != nil {
		t.Fatalf("load %s: %v", r.ID, err)
	}
	wantStored(t, st, s)
	return s
}

// loadTail reads the last version with its tail and expects it to work.
func loadTail(t testing.TB, st store.Store, r store.Ref) session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), r, true)
	if err != nil {
		t.Fatalf("load %s with its tail: %v", r.ID, err)
	}
	wantStored(t, st, s)
	return s
}

// wantStored fails the test unless a session that was loaded, maybe from memory,
// is what its version and its tail in the log make.
func wantStored(t testing.TB, st store.Store, loaded session.Session) {
	t.Helper()
	logs, ok := st.(store.Logs)
	if !ok {
		return
	}
	stored, err := logs.LoadAt(t.Context(), store.RefOf(loaded), loaded.Version())
	if err == nil && session.Base(loaded) > session.Base(stored) {
		stored, err = withTail(t.Context(), logs, stored, session.Base(loaded))
	}
	if errors.Is(err, session.ErrNotFound) {
		return // deleted in the meantime
	}
	if err != nil {
		t.Fatalf("read what %s was loaded from: %v", loaded.ID(), err)
	}
	wantSame(t, loaded, stored)
}

// withTail applies the open tail up to a change.
func withTail(ctx context.Context, logs store.Logs, s session.Session, last int64) (session.Session, error) {
	var records []session.Record
	for after := session.Base(s); after < last; after = records[len(records)-1].Seq {
		entries, err := logs.Log(ctx, store.RefOf(s), after, 100)
		if err != nil {
			return s, err
		}
		if len(entries) == 0 {
			return s, fmt.Errorf("the log ends with change %d, not %d", after, last)
		}
		for _, e := range entries {
			if e.Seq <= last {
				records = append(records, e.Record)
			}
		}
	}
	return session.ApplyTail(s, records)
}

func info(t testing.TB, st store.Store, r store.Ref) session.Info {
	t.Helper()
	i, err := st.Info(t.Context(), r)
	if err != nil {
		t.Fatalf("info of %s: %v", r.ID, err)
	}
	return i
}

// acquire takes a lease for an hour and expects it to work.
func acquire(t testing.TB, st store.Store, r store.Ref, holder string) store.Lease {
	t.Helper()
	l, err := ability[store.Leases](t, st).Acquire(t.Context(), r, holder, time.Hour)
	if err != nil {
		t.Fatalf("acquire %s for %s: %v", r.ID, holder, err)
	}
	return l
}

// openHandles opens the same data several times.
func openHandles(t testing.TB, d Data, n int) []store.Store {
	t.Helper()
	all := make([]store.Store, n)
	for i := range all {
		all[i] = d.Open(t)
	}
	return all
}

// wantSame fails the test unless two sessions agree in head, window, log and
// open tail.
func wantSame(t testing.TB, got, want session.Session) {
	t.Helper()
	if g, w := head(t, got), head(t, want); !bytes.Equal(g, w) {
		t.Errorf("session %s differs:\n got %s\nwant %s", want.ID(), g, w)
	}
	if g, w := encode(t, got.WindowMessages()), encode(t, want.WindowMessages()); !bytes.Equal(g, w) {
		t.Errorf("messages of %s differ:\n got %s\nwant %s", want.ID(), g, w)
	}
	if session.Base(got) != session.Base(want) || got.HasTail() != want.HasTail() {
		t.Errorf("session %s: base %d and tail %t, want %d and %t", want.ID(), session.Base(got), got.HasTail(), session.Base(want), want.HasTail())
	}
}

// sameWhole is same for values that hold the whole transcript.
func sameWhole(t testing.TB, got, want session.Session) {
	t.Helper()
	if g, w := encode(t, got), encode(t, want); !bytes.Equal(g, w) {
		t.Errorf("session %s differs:\n got %s\nwant %s", want.ID(), g, w)
	}
}

// sameInfo fails the test unless two headers agree.
func sameInfo(t testing.TB, got, want session.Info) {
	t.Helper()
	if g, w := encode(t, got), encode(t, want); !bytes.Equal(g, w) {
		t.Errorf("header of %s differs:\n got %s\nwant %s", want.ID, g, w)
	}
}

// head encodes a session's head without its spans: they say how to read a log,
// and a store of documents has none. The messages are compared instead.
func head(t testing.TB, s session.Session) []byte {
	t.Helper()
	raw, err := session.EncodeHead(s)
	if err != nil {
		t.Fatalf("encode head: %v", err)
	}
	parts := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &parts); err != nil {
		t.Fatalf("read head: %v", err)
	}
	delete(parts, "spans")
	return encode(t, parts)
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return raw
}

// wantErr fails the test unless an error is the expected one.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// wantConflict fails the test unless an error is a conflict for a reason.
func wantConflict(t testing.TB, what string, err error, reason session.ConflictReason) {
	t.Helper()
	var c *session.ConflictError
	if !errors.As(err, &c) || c.Reason != reason {
		t.Errorf("%s: got error %v, want conflict %s", what, err, reason)
	}
}
