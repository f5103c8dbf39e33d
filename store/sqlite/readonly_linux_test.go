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
	above := t.TempDir()
	dir := filepath.Join(above, "data")
	path = filepath.Join(dir, "sessions.db")
	st := open(t, path, sqlite.Config{})
	s = create(t, st, "s")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{filepath.Dir(above): 0o755, above: 0o755, dir: dirMode, path: fileMode} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Error(err)
		}
	})
	return path, s
}

func TestOpen_readOnlyDirectorySaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, mode := range []fs.FileMode{0o444, 0o666} {
		path, _ := placed(t, 0o555, mode)
		asSomebody(t, func() {
			began := time.Now()
			st, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err == nil {
				t.Errorf("opened with file mode %v: %v", mode, st.Close())
				return
			}
			if !strings.Contains(err.Error(), "directory") || !strings.Contains(err.Error(), path) {
				t.Errorf("open: %v, want an error that names the file and speaks of its directory", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v to say so", took)
			}
			if _, err := sqlite.Open(t.Context(), filepath.Join(filepath.Dir(path), "new.db"), sqlite.Config{}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("open of what cannot be made: %v, want permission denied", err)
			}
		})
	}
}

func TestStore_readOnlyFileCanBeReadOnly(t *testing.T) {
	t.Parallel()
	path, s := placed(t, 0o777, 0o444)
	asSomebody(t, func() {
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
		if got, err := st.Load(t.Context(), ref("s"), true); err != nil || got.Version() != 1 {
			t.Errorf("load: %v", err)
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
			if err == nil || !strings.Contains(err.Error(), "cannot be written") || errors.Is(err, session.ErrUnknownOutcome) {
				t.Errorf("%s: %v, want one that says it cannot be written to", call, err)
			}
		}
	})
}
