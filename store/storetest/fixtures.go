package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Fixtures for a store's own tests, besides the suite. They fail the test when
// something goes wrong.

// Ref names a session of the default tenant.
func Ref(id string) store.Ref { return ref(id) }

// Noon is the time of everything the fixtures make.
func Noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// NewSession makes a version-0 session. Without an agent id it gets one.
func NewSession(t testing.TB, b session.Identity) session.Session {
	t.Helper()
	if b.AgentID == "" {
		b.AgentID = "agent-" + b.ID
	}
	s, err := session.New(b, session.Definition{Name: "tester", Model: "test/model"}, session.Seed{}, Noon())
	if err != nil {
		t.Fatalf("make session: %v", err)
	}
	return s
}

// Create makes and stores a session.
func Create(t testing.TB, st store.Store, id string) session.Session {
	t.Helper()
	s, err := st.Create(t.Context(), NewSession(t, session.Identity{ID: id}), store.Commit{ID: "c1", Action: "create", At: Noon()})
	if err != nil {
		t.Fatalf("create %s: %v", id, err)
	}
	return s
}

// AddMessage adds a user's message, which is not saved yet.
func AddMessage(t testing.TB, s session.Session, text string) session.Session {
	t.Helper()
	s, err := s.WithMessage(session.Message{ID: text, Role: session.RoleUser, Content: session.Text(text)}, Noon())
	if err != nil {
		t.Fatalf("add message: %v", err)
	}
	return s
}

// Load reads a session with its open tail.
func Load(t testing.TB, st store.Store, id string) session.Session {
	t.Helper()
	return loadTail(t, st, ref(id))
}

// Texts lists the texts of a session's messages.
func Texts(s session.Session) []string {
	list := []string{}
	for _, m := range s.All() {
		list = append(list, m.Content.Text())
	}
	return list
}
