package tools_test

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// A directory that turns into a link and back, between every two looks at it,
// does not lead out.
func TestFiles_aRaceDoesNotLeadOut(t *testing.T) {
	t.Parallel()
	work, outside := t.TempDir(), t.TempDir()
	put(t, work+"/turning/secret", "inside")
	put(t, outside+"/secret", "outside")
	if err := os.Symlink(outside, work+"/link"); err != nil {
		t.Fatal(err)
	}
	b := newBox(t, tools.Config{WorkDir: work})
	turn := func() error {
		return unix.Renameat2(unix.AT_FDCWD, work+"/turning", unix.AT_FDCWD, work+"/link", unix.RENAME_EXCHANGE)
	}
	if err := turn(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var turning sync.WaitGroup
	turning.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = turn()
			}
		}
	})
	read := 0
	for range 3000 {
		got := use(t, b, "file_read", map[string]any{"path": "turning/secret"})
		if !got.IsError && got.Content != "inside" {
			t.Errorf("read %q", got.Content)
			break
		}
		if !got.IsError {
			read++
		}
	}
	for range 200 {
		use(t, b, "file_write", map[string]any{"path": "turning/written", "content": "x"})
	}
	close(stop)
	turning.Wait()
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("wrote outside: %v, %v", entries, err)
	}
	if read == 0 {
		t.Error("nothing could be read at all")
	}
}
