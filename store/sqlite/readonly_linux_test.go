package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// asSomebody runs a function as one who owns nothing: root may write
// everywhere. It has a thread of its own that is not used again.
func asSomebody(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		do()
	}()
	<-done
}

// placed is a database with one session, for everybody to read.
func placed(t *testing.T, dirMode, fileMode fs.FileMode) (path string, s session.Session) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data", "sessions.db")
	st := open(t, path, sqlite.Config{})
	s = create(t, st, "s")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	permit(t, path, dirMode, fileMode)
	return path, s
}

// permit sets who may write to a database and beside it. Everybody may read.
func permit(t *testing.T, path string, dirMode, fileMode fs.FileMode) {
	t.Helper()
	dir := filepath.Dir(path)
	above := filepath.Dir(dir)
	modes := map[string]fs.FileMode{filepath.Dir(above): 0o755, above: 0o755, dir: dirMode}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if _, err := os.Stat(name); err == nil {
			modes[name] = fileMode
		}
	}
	for path, mode := range modes {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Error(err)
		}
	})
}

// onlyReads checks that a store gives its one session and refuses every write.
func onlyReads(t *testing.T, path string, s session.Session) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Errorf("open: %v", err)
		return
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if got, err := st.Load(t.Context(), ref("s"), true); err != nil || got.Version() != s.Version() {
		t.Errorf("load: version %d, want %d: %v", got.Version(), s.Version(), err)
	}
	if page, err := st.List(t.Context(), session.DefaultTenant, store.Query{}); err != nil || len(page.Items) != 1 {
		t.Errorf("list: %d, %v", len(page.Items), err)
	}
	errs := map[string]error{}
	_, errs["create"] = st.Create(t.Context(), fresh(t, "b"), store.Commit{})
	_, errs["save"] = st.Save(t.Context(), said(t, s, "x"), store.Commit{})
	_, errs["append"] = st.Append(t.Context(), said(t, s, "x"), store.Append{})
	_, errs["acquire"] = st.Acquire(t.Context(), ref("s"), "h", time.Minute)
	errs["delete"] = st.Delete(t.Context(), ref("s"), 0)
	for call, err := range errs {
		if !errors.Is(err, session.ErrReadOnly) || !strings.Contains(err.Error(), path) || errors.Is(err, session.ErrUnknownOutcome) {
			t.Errorf("%s: %v, want a ReadOnlyError that names the file", call, err)
		}
	}
}

func TestStore_readOnlyFileOrDirectoryCanBeRead(t *testing.T) {
	t.Parallel()
	for _, modes := range [][2]fs.FileMode{{0o777, 0o444}, {0o555, 0o444}, {0o555, 0o666}} {
		path, s := placed(t, modes[0], modes[1])
		asSomebody(t, func() {
			onlyReads(t, path, s)
			if modes[0] == 0o555 {
				if _, err := sqlite.Open(t.Context(), filepath.Join(filepath.Dir(path), "new.db"), sqlite.Config{}); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("open of what cannot be made: %v, want permission denied", err)
				}
			}
		})
	}
}

// A process that was killed leaves its log. With the -shm file SQLite can read
// both; without it the last commits would be missing without a word.
func TestStore_readOnlyDirectoryWithALog(t *testing.T) {
	t.Parallel()
	from := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, from, sqlite.Config{})
	s := save(t, st, said(t, create(t, st, "s"), "in the log"))
	for _, files := range [][]string{{"", "-wal", "-shm"}, {"", "-wal"}} {
		path := filepath.Join(t.TempDir(), "data", "sessions.db")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, end := range files {
			if err := os.WriteFile(path+end, read(t, from+end), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		permit(t, path, 0o555, 0o444)
		asSomebody(t, func() {
			if len(files) == 3 {
				onlyReads(t, path, s)
				return
			}
			st, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err == nil {
				t.Errorf("opened: %v", st.Close())
			} else if !errors.Is(err, session.ErrReadOnly) || !strings.Contains(err.Error(), path+"-wal") {
				t.Errorf("open: %v, want a ReadOnlyError that names the log", err)
			}
		})
	}
}

func TestStore_readOnlyDirectoryNoticesWritesOfOthers(t *testing.T) {
	t.Parallel()
	path, s := placed(t, 0o555, 0o444)
	var st *sqlite.Store
	asSomebody(t, func() {
		var err error
		if st, err = sqlite.Open(t.Context(), path, sqlite.Config{}); err != nil {
			t.Error(err)
		} else if _, err := st.Load(t.Context(), ref("s"), true); err != nil {
			t.Error(err)
		}
	})
	if st == nil {
		return
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	permit(t, path, 0o700, 0o600)
	other := open(t, path, sqlite.Config{})
	save(t, other, said(t, s, "meanwhile"))
	if _, err := st.Load(t.Context(), ref("s"), true); !errors.Is(err, session.ErrBusy) {
		t.Errorf("load while another process writes: %v, want ErrBusy", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := st.Load(t.Context(), ref("s"), true); !errors.Is(err, session.ErrBusy) {
		t.Errorf("load after another process has written: version %d, %v, want ErrBusy", got.Version(), err)
	}
}

func TestOpen_readOnlyDirectoryAndOlderSchema(t *testing.T) {
	t.Parallel()
	for _, mode := range []fs.FileMode{0o555, 0o777} {
		path := filepath.Join(t.TempDir(), "data", "sessions.db")
		st := open(t, path, sqlite.Config{})
		rewrite(t, st, "PRAGMA user_version = 8")
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		permit(t, path, mode, 0o444)
		asSomebody(t, func() {
			st, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err == nil {
				t.Errorf("opened: %v", st.Close())
			} else if !errors.Is(err, session.ErrReadOnly) || !strings.Contains(err.Error(), "schema") {
				t.Errorf("open: %v, want a ReadOnlyError that speaks of the schema", err)
			}
		})
	}
}
