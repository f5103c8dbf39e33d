package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// start is when the sessions of the suite are made.
func start() time.Time { return time.Date(2026, 3, 4, 5, 0, 0, 654321000, time.UTC) }

// newSession is a small version-0 session of the default tenant.
func newSession(t testing.TB, id string) session.Session {
	t.Helper()
	return born(t, session.Birth{ID: id})
}

// born is a version-0 session; what the birth leaves out is filled in.
func born(t testing.TB, b session.Birth) session.Session {
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

// create stores a version-0 session and expects it to work.
func create(t testing.TB, st store.Store, s session.Session) session.Session {
	t.Helper()
	created, err := st.Create(t.Context(), s, commit(s, "create"))
	if err != nil {
		t.Fatalf("create %s: %v", s.ID(), err)
	}
	return created
}

// commit describes a save of s with an id of its own.
func commit(s session.Session, action string) store.Commit {
	return store.Commit{
		ID: fmt.Sprintf("%s-%s-%d-%d", s.ID(), action, s.Version(), s.Seq()), Action: action, Actor: "suite",
		At: start().Add(time.Duration(s.Seq()) * time.Second),
	}
}

// same fails the test unless two sessions are equal in every byte.
func same(t testing.TB, got, want session.Session) {
	t.Helper()
	if g, w := encoded(t, got), encoded(t, want); !bytes.Equal(g, w) {
		t.Errorf("sessions differ:\n got %s\nwant %s", g, w)
	}
	if got.Base() != want.Base() || got.HasTail() != want.HasTail() {
		t.Errorf("base %d and tail %t, want %d and %t", got.Base(), got.HasTail(), want.Base(), want.HasTail())
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return raw
}
