package file_test

import (
	"os"
	"path/filepath"
	"testing"

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
					return changed(t, raw, `"formatVersion":1`, `"formatVersion":99`)
				})
			},
			Damages: damages(dir),
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

var (
	ref    = storetest.Ref
	noon   = storetest.Noon
	create = storetest.Create
	said   = storetest.AddMessage
	load   = storetest.Load
	texts  = storetest.Texts
	fresh  = storetest.NewSession
)

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

// changed is a document in which one text was replaced by a program that knows
// checksums.
func changed(t testing.TB, raw []byte, old, with string) []byte {
	t.Helper()
	sealed, err := file.Seal(replaceOnce(t, bare(t, raw), old, with))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// bare is a document without checksums, as earlier programs wrote it.
func bare(t testing.TB, raw []byte) []byte {
	t.Helper()
	document, err := file.Document(raw)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func rewrite(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	writeFile(t, path, change(readFile(t, path)))
}
