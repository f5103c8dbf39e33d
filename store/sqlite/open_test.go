package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

func TestOpen_makesFileForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "sessions.db")
	create(t, open(t, path, sqlite.Config{}), "s")
	for name, want := range map[string]os.FileMode{
		dir: 0o700 | os.ModeDir, filepath.Dir(dir): 0o700 | os.ModeDir, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600,
	} {
		info, err := os.Stat(name)
		if err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v (%v), want %v", name, info.Mode(), err, want)
		}
	}
}

func TestOpen_takesAnyFileName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with space.db", "50%41.db", "a?b=c.db", "a#b.db", "ü'\".db", "no-extension"} {
		path := filepath.Join(t.TempDir(), name)
		create(t, open(t, path, sqlite.Config{}), "s")
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 3 {
			t.Errorf("%q: the directory has %v", name, entries)
		}
	}
}

func TestOpen_refusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := write("text", bytes.Repeat([]byte("this is no database\n"), 100))
	for what, c := range map[string]struct {
		path string
		want error
	}{
		"an empty path":           {"", session.ErrInvalid},
		"a text file":             {text, session.ErrInvalid},
		"a directory":             {dir, nil},
		"a file as a directory":   {filepath.Join(text, "sessions.db"), nil},
		"a database of others":    {foreign(t, dir), session.ErrInvalid},
		"a setting out of range":  {filepath.Join(dir, "new"), session.ErrInvalid},
		"a database that is torn": {torn(t, dir), session.ErrCorrupt},
	} {
		before, _ := os.ReadFile(c.path)
		var config sqlite.Config
		if filepath.Base(c.path) == "new" {
			config.Synchronous = 7
		}
		st, err := sqlite.Open(t.Context(), c.path, config)
		if err == nil {
			t.Errorf("%s was opened: %v", what, st.Close())
			continue
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if after, _ := os.ReadFile(c.path); !bytes.Equal(before, after) {
			t.Errorf("%s was written to", what)
		}
	}
}

// foreign is a database with a table of another program.
func foreign(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "foreign.db")
	st := open(t, path, sqlite.Config{})
	rewrite(t, st, "PRAGMA application_id = 1")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// torn is a database whose first page lacks its second half.
func torn(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "torn.db")
	if err := open(t, path, sqlite.Config{}).Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < 4096; i++ { // all but the header of the file
		raw[i] = 0xff
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpen_refusesNewerSchemaAndLeavesItAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{})
	create(t, st, "s")
	rewrite(t, st, "PRAGMA user_version = 999")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		var newer *session.NewerFormatError
		if !errors.As(err, &newer) {
			t.Fatalf("open: %v, want NewerFormatError", err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the newer database was written to (%v)", err)
	}
}

func TestOpen_againFindsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{})
	save(t, st, said(t, create(t, st, "s"), "kept"))
	for range 3 {
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		st = open(t, path, sqlite.Config{Synchronous: sqlite.Normal})
		if got := texts(load(t, st, "s")); len(got) != 1 || got[0] != "kept" {
			t.Errorf("opened again it says %q", got)
		}
	}
	newest, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := st.Count(t.Context(), "PRAGMA user_version"); err != nil || n != int64(len(newest)) {
		t.Errorf("schema %d, %v", n, err)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Error(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the write-ahead log is still there after the last close: %v", err)
	}
}

func TestOpen_setsWhatDurabilityRestsOn(t *testing.T) {
	t.Parallel()
	for synchronous, want := range map[sqlite.Synchronous]string{sqlite.Full: "2", sqlite.Normal: "1"} {
		st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{Synchronous: synchronous})
		for pragma, want := range map[string]string{"synchronous": want, "journal_mode": "wal", "foreign_keys": "1"} {
			if have, err := st.Setting(t.Context(), pragma); err != nil || have != want {
				t.Errorf("%s is %s (%v), want %s", pragma, have, err, want)
			}
		}
	}
}

func TestOpen_togetherMakesOneSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	const openers = 8
	stores, errs := make([]*sqlite.Store, openers), make([]error, openers)
	var wg sync.WaitGroup
	for i := range openers {
		wg.Go(func() { stores[i], errs[i] = sqlite.Open(t.Context(), path, sqlite.Config{}) })
	}
	wg.Wait()
	for i, st := range stores {
		if errs[i] != nil {
			t.Errorf("opener %d: %v", i, errs[i])
			continue
		}
		create(t, st, string(rune('a'+i)))
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpen_endedContextOpensNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
}

// It runs alone because it looks at all goroutines there are.
func TestClose_leavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer func() {
		err := goleak.Find(before)
		for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); { // one that ends may need a while on a busy machine
			err = goleak.Find(before)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := st.Subscribe(ref("s"))
	defer stop()
	s := create(t, st, "s")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := st.Load(t.Context(), ref("s"), false); err != nil && !errors.Is(err, session.ErrClosed) {
				t.Errorf("load beside Close: %v", err)
			}
			if _, err := st.Save(t.Context(), s, store.Commit{}); err != nil && !errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrConflict) {
				t.Errorf("save beside Close: %v", err)
			}
		})
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
