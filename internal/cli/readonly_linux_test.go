package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// Commands that read work on a database in a directory that cannot be written
// to; those that write say why they cannot.
func TestReadOnlyStore_isReadAndNotWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := filepath.Join(t.TempDir(), "data", "holdfast.db")
	d.open = func() store.Store {
		st, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	d.must("one\ntwo\n", "chat", "--name", "s")
	dir := filepath.Dir(path)
	for path, mode := range map[string]os.FileMode{filepath.Dir(filepath.Dir(dir)): 0o755, filepath.Dir(dir): 0o755, dir: 0o555, path: 0o444} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // TempDir reports what it cannot remove

	open := func() (st store.Store, err error) {
		done := make(chan struct{})
		go func() { // root may write everywhere: the thread of this goroutine may not, and is not used again
			defer close(done)
			runtime.LockOSThread()
			if os.Geteuid() == 0 {
				if err := syscall.Setfsuid(65534); err != nil {
					t.Error(err)
				}
			}
			st, err = sqlite.Open(t.Context(), path, sqlite.Config{})
		}()
		<-done
		return st, err
	}
	d.open = func() store.Store {
		st, err := open()
		if err != nil {
			t.Error(err)
		}
		return st
	}
	for want, line := range map[string]string{
		"s":             "sessions list",
		"You said: two": "sessions show s",
		"user: one":     "sessions log s",
		"two":           "sessions diff s 2 3",
		`"version":3`:   "sessions export s",
		"You said: one": "sessions history s",
		"one":           "sessions recall s one",
	} {
		if got := d.must("", strings.Fields(line)...); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", line, want, got)
		}
	}
	d.must("", "doctor")
	for _, line := range []string{"send s hello", "sessions delete s", "sessions create --name t", "sessions rename s t"} {
		if code := d.run(strings.NewReader(""), strings.Fields(line)...); code != exitIO || !strings.Contains(d.err.String(), "can only be read") {
			t.Errorf("%s ended with %d, want %d and why:\n%s", line, code, exitIO, d.err)
		}
	}
	if err := os.Chmod(path, 0o000); err != nil { // as the file of somebody else
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "see that this user may read and write it") {
		t.Errorf("a file that may not be read: %v", err)
	}
}
