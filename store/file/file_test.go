package file_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Data {
		dir, clock := filepath.Join(t.TempDir(), "sessions"), storetest.NewClock()
		return storetest.Data{
			Clock: clock,
			Open:  func(t testing.TB) store.Store { return open(t, dir, file.Config{Now: clock.Now}) },
			Corrupt: func(t testing.TB, r store.Ref) {
				rewrite(t, documentOf(dir, r), func(raw []byte) []byte { return raw[:60] })
			},
			Newer: func(t testing.TB, r store.Ref) {
				rewrite(t, documentOf(dir, r), func(raw []byte) []byte {
					return replaceOnce(t, raw, `"formatVersion":1`, `"formatVersion":99`)
				})
			},
		}
	})
}

func open(t testing.TB, dir string, c file.Config) *file.Store {
	t.Helper()
	st, err := file.Open(dir, c)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}

func documentOf(dir string, r store.Ref) string {
	if r.Tenant != session.DefaultTenant {
		dir = filepath.Join(dir, "tenants", r.Tenant)
	}
	return filepath.Join(dir, r.ID+".json")
}

func ref(id string) store.Ref { return store.Ref{Tenant: session.DefaultTenant, ID: id} }

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// fresh is a version-0 session.
func fresh(t testing.TB, b session.Birth) session.Session {
	t.Helper()
	if b.AgentID == "" {
		b.AgentID = "agent-" + b.ID
	}
	s, err := session.New(b, session.Definition{Name: "tester", Model: "test/model"}, session.Seed{}, noon())
	if err != nil {
		t.Fatalf("make session: %v", err)
	}
	return s
}

func create(t testing.TB, st store.Store, id string) session.Session {
	t.Helper()
	s, err := st.Create(t.Context(), fresh(t, session.Birth{ID: id}), store.Commit{ID: "c1", Action: "create", At: noon()})
	if err != nil {
		t.Fatalf("create %s: %v", id, err)
	}
	return s
}

// said is the session with one more message.
func said(t testing.TB, s session.Session, text string) session.Session {
	t.Helper()
	s, err := s.WithMessage(session.Message{ID: text, Role: session.RoleUser, Content: session.Text(text)}, noon())
	if err != nil {
		t.Fatalf("add message: %v", err)
	}
	return s
}

func save(t testing.TB, st store.Store, s session.Session, c store.Commit) session.Session {
	t.Helper()
	s, err := st.Save(t.Context(), s, c)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return s
}

func appendTail(t testing.TB, st store.Tails, s session.Session) session.Session {
	t.Helper()
	s, err := st.Append(t.Context(), s, store.Append{})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return s
}

func load(t testing.TB, st store.Store, id string) session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), ref(id), true)
	if err != nil {
		t.Fatalf("load %s: %v", id, err)
	}
	return s
}

// texts is what was said.
func texts(s session.Session) []string {
	list := []string{}
	for _, m := range s.All() {
		list = append(list, m.Content.Text())
	}
	return list
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func writeFile(t testing.TB, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	writeFile(t, path, change(readFile(t, path)))
}
