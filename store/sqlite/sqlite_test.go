package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Data {
		path, clock := filepath.Join(t.TempDir(), "sessions.db"), storetest.NewClock()
		first := open(t, path, sqlite.Config{Now: clock.Now})
		first.TinyCells()
		rewrite(t, first, "PRAGMA wal_autocheckpoint = 0") // so that the log only grows
		if strings.Contains(t.Name(), "/flat/") {
			first.RestIndex() // what a call writes is measured without it
		}
		opened, damaged := false, false
		var searches atomic.Int64
		t.Cleanup(func() {
			if !damaged && !t.Failed() {
				checkFile(t, path)
			}
		})
		return storetest.Data{
			Clock: clock,
			Open: func(t testing.TB) store.Store {
				if !opened {
					opened = true
					return halfIndexed{first, &searches}
				}
				next := open(t, path, sqlite.Config{Now: clock.Now})
				next.TinyCells()
				return halfIndexed{next, &searches}
			},
			Corrupt: func(t testing.TB, r store.Ref) {
				damaged = true
				for _, statement := range []string{
					"UPDATE sessions SET header = substr(header, 1, length(header) / 2) WHERE tenant = ? AND id = ?",
					"UPDATE heads SET data = substr(data, 1, length(data) / 2) WHERE log = (SELECT log FROM sessions WHERE tenant = ? AND id = ?)",
				} {
					rewrite(t, open(t, path, sqlite.Config{}), statement, r.Tenant, r.ID)
				}
			},
			Newer: func(t testing.TB, r store.Ref) {
				damaged = true
				for _, statement := range []string{
					`UPDATE sessions SET header = replace(header, '"formatVersion":1', '"formatVersion":99') WHERE tenant = ? AND id = ?`,
					`UPDATE heads SET data = CAST(replace(CAST(data AS TEXT), '"formatVersion":1', '"formatVersion":99') AS BLOB)
WHERE log = (SELECT log FROM sessions WHERE tenant = ? AND id = ?)`,
				} {
					rewrite(t, open(t, path, sqlite.Config{}), statement, r.Tenant, r.ID)
				}
			},
			Damages: damages(path, &damaged),
			Cases:   20,
			Written: writtenByUs(t),
		}
	})
}

// writtenByUs counts the bytes this process has handed to the system, nil where
// the system does not tell.
func writtenByUs(t testing.TB) func() int64 {
	const path = "/proc/self/io"
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	return func() int64 {
		var read, written int64
		text, err := os.ReadFile(path)
		if err == nil {
			_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &written)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return written
	}
}

// checkFile looks for damage in what a test has left.
func checkFile(t testing.TB, path string) {
	t.Helper()
	problems, err := problemsIn(path)
	if err != nil || len(problems) > 0 {
		t.Errorf("what the test has left: %q, %v", problems, err)
	}
}

func problemsIn(path string) ([]string, error) {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	problems, err := st.Check(ctx, nil)
	return problems, errors.Join(err, st.Close())
}

func open(t testing.TB, path string, c sqlite.Config) *sqlite.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, c)
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

func rewrite(t testing.TB, st *sqlite.Store, statement string, args ...any) {
	t.Helper()
	if err := st.Rewrite(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

var (
	ref    = storetest.Ref
	noon   = storetest.Noon
	create = storetest.Create
	said   = storetest.AddMessage
	load   = storetest.Load
	texts  = storetest.Texts
)

// fresh is a version-0 session.
func fresh(t testing.TB, id string) session.Session {
	t.Helper()
	return storetest.NewSession(t, session.Identity{ID: id})
}

func save(t testing.TB, st store.Store, s session.Session) session.Session {
	t.Helper()
	s, err := st.Save(t.Context(), s, store.Commit{ID: "save", Action: "test", At: noon()})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return s
}
