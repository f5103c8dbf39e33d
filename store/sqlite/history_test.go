package sqlite_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

func fork(t testing.TB, st *sqlite.Store, s session.Session, id string) session.Session {
	t.Helper()
	f, err := s.Fork(id, "agent-"+id, noon())
	if err != nil {
		t.Fatalf("fork: %v", err)
	}
	if f, err = st.Fork(t.Context(), f, store.Commit{ID: "fork", At: noon()}); err != nil {
		t.Fatalf("store fork: %v", err)
	}
	return f
}

func encoded(t testing.TB, s session.Session) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// heavy is a stored session with so many metadata keys of 60 KiB each.
func heavy(t testing.TB, st *sqlite.Store, keys int) session.Session {
	t.Helper()
	s := fresh(t, "heavy")
	for i := range keys {
		var err error
		if s, err = s.WithMetadata(fmt.Sprintf("key-%d", i), []byte(`"`+strings.Repeat("x", 60<<10)+`"`), noon()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := st.Create(t.Context(), s, store.Commit{ID: "create", At: noon()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSave_largeStateIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{})
	rewrite(t, st, "PRAGMA wal_autocheckpoint = 0")
	s := heavy(t, st, 5)
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	const saves = 150
	before := size()
	versions := map[int64]string{}
	for i := range saves {
		if s = save(t, st, said(t, s, fmt.Sprint(i))); i%40 == 0 {
			versions[s.Version()] = encoded(t, s)
		}
	}
	if perSave := (size() - before) / saves; perSave > 100<<10 {
		t.Errorf("%d bytes written for each small save beside a large state", perSave)
	}
	for _, st := range []*sqlite.Store{st, open(t, path, sqlite.Config{})} {
		if got := encoded(t, load(t, st, "heavy")); got != encoded(t, s) {
			t.Error("loaded is not what was saved")
		}
		for version, want := range versions {
			at, err := st.LoadWhole(t.Context(), ref("heavy"), version)
			if err != nil || encoded(t, at) != want {
				t.Errorf("version %d is not what was saved (%v)", version, err)
			}
		}
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{Metadata: map[string]string{"key-0": strings.Repeat("x", 60<<10)}})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("found by metadata: %d, %v", len(page.Items), err)
	}
	healthy(t, st)
}

func TestSave_largeStateThatIsDamagedGetsNoSuccessor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	s := heavy(t, open(t, path, sqlite.Config{}), 5)
	st := open(t, path, sqlite.Config{})
	rewrite(t, st, "UPDATE heads SET data = substr(data, 1, 100000)")
	more := session.Message{ID: "more", Role: session.RoleUser, Content: session.Text(strings.Repeat("more ", 20_000))}
	_, err := st.Save(t.Context(), with(t, s, session.MessageAdded{Message: more}), store.Commit{}) // so much that a head is due
	if !strings.Contains(fmt.Sprint(err), "corrupt") {
		t.Errorf("save over a damaged head: %v, want CorruptError", err)
	}
	if n, err := st.Count(t.Context(), "SELECT max(version) FROM heads"); err != nil || n != 1 {
		t.Errorf("head of version %d, %v", n, err)
	}
}

func TestDelete_leavesNothingThatNobodyNeeds(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	rows := func() string {
		text := ""
		for _, table := range []string{"sessions", "changes", "heads", "commits", "lineage", "inbox", "keys"} {
			n, err := st.Count(t.Context(), "SELECT count(*) FROM "+table)
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf("%s %d ", table, n)
		}
		return text
	}
	empty := rows()
	a := save(t, st, said(t, create(t, st, "a"), "one"))
	b := save(t, st, said(t, fork(t, st, a, "b"), "two"))
	c := save(t, st, said(t, fork(t, st, b, "c"), "three"))
	save(t, st, said(t, a, "unshared"))
	if err := st.Post(t.Context(), ref("c"), store.Item{ID: "i", Kind: store.ItemCancel}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), said(t, c, "open"), store.Append{Keys: []store.Key{{Name: "k"}}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if err := st.Delete(t.Context(), ref(id), 0); err != nil {
			t.Fatal(err)
		}
		healthy(t, st)
		if got := texts(load(t, st, "c")); fmt.Sprint(got) != "[one two three open]" {
			t.Errorf("after %s was deleted c says %q", id, got)
		}
	}
	if n, err := st.Count(t.Context(), "SELECT count(*) FROM changes WHERE CAST(data AS TEXT) LIKE '%unshared%'"); err != nil || n != 0 {
		t.Errorf("%d changes of the purged parent stay that no fork needs (%v)", n, err)
	}
	if err := st.Delete(t.Context(), ref("c"), 0); err != nil {
		t.Fatal(err)
	}
	if left := rows(); left != empty {
		t.Errorf("left behind: %s", left)
	}
}
