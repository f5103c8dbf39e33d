package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

func TestStore_readOnlyDirectoryCanBeReadOnly(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "sessions")
	s := create(t, open(t, dir, file.Config{}), "a")
	for path, mode := range map[string]fs.FileMode{filepath.Dir(above): 0o755, above: 0o755, dir: 0o555, documentOf(dir, ref("a")): 0o444} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Error(err)
		}
	})
	// Root may write everywhere, so this runs as somebody else: on a thread of
	// its own that is not used again.
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
		st, err := file.Open(dir, file.Config{})
		if err != nil {
			t.Errorf("open: %v", err)
			return
		}
		defer func() {
			if err := st.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
		if _, err := st.Load(t.Context(), ref("a"), true); err != nil {
			t.Errorf("load: %v", err)
		}
		if page, err := st.List(t.Context(), session.DefaultTenant, store.Query{}); err != nil || len(page.Items) != 1 {
			t.Errorf("list: %+v, %v", page, err)
		}
		errs := map[string]error{}
		_, errs["create"] = st.Create(t.Context(), fresh(t, session.Identity{ID: "b"}), store.Commit{})
		_, errs["create for a tenant"] = st.Create(t.Context(), fresh(t, session.Identity{ID: "b", Tenant: "acme"}), store.Commit{})
		_, errs["save"] = st.Save(t.Context(), said(t, s, "x"), store.Commit{})
		_, errs["append"] = st.Append(t.Context(), said(t, s, "x"), store.Append{})
		_, errs["acquire"] = st.Acquire(t.Context(), ref("a"), "h", time.Minute)
		errs["delete"] = st.Delete(t.Context(), ref("a"), 0)
		for call, err := range errs {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v, want permission denied", call, err)
			}
		}
	}()
	<-done
}
