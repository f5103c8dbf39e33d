package file_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

func TestHolder_deadOnlyWhenThatIsCertain(t *testing.T) {
	t.Parallel()
	me, err := file.Holder()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(me, "/")
	host, pid, start := parts[0], parts[1], parts[2]
	ticks, space, _ := strings.Cut(start, ".")
	zombie := exec.CommandContext(t.Context(), "/bin/true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zombie.Wait() })
	waitUntil(t, func() bool { return file.Dead(host + "/" + strconv.Itoa(zombie.Process.Pid) + "/1." + space) })

	for holder, want := range map[string]bool{
		me:                         false,
		me + "/worker-7":           false,
		host + "/4194305/" + start: true, // beyond the largest process id
		host + "/" + pid + "/1" + ticks + "." + space: true, // the id was given to a later process
		host + "/" + pid + "/1" + ticks + ".other":    false,
		host + "/4194305/1.other-boot.1":              false,
		"elsewhere/4194305/" + start:                  false,
		host + "/x/" + start:                          false,
		host + "/0/" + start:                          false,
		host + "/4194305":                             false,
		"":                                            false,
		"///":                                         false,
	} {
		if got := file.Dead(holder); got != want {
			t.Errorf("%q dead: %t, want %t", holder, got, want)
		}
	}
}

// waitUntil looks again and again.
func waitUntil(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it never came")
		}
	}
}

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
		defer st.Close()
		if _, err := st.Load(t.Context(), ref("a"), true); err != nil {
			t.Errorf("load: %v", err)
		}
		if page, err := st.List(t.Context(), session.DefaultTenant, store.Query{}); err != nil || len(page.Items) != 1 {
			t.Errorf("list: %+v, %v", page, err)
		}
		errs := map[string]error{}
		_, errs["create"] = st.Create(t.Context(), fresh(t, session.Birth{ID: "b"}), store.Commit{})
		_, errs["create for a tenant"] = st.Create(t.Context(), fresh(t, session.Birth{ID: "b", Tenant: "acme"}), store.Commit{})
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
