package files_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/tool/files"
)

// A folder that turns into a link and back, between every two looks at it,
// does not lead out.
func TestTools_aRaceDoesNotLeadOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{"real/secret": "inside"})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, d.path("out")); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	stop := make(chan struct{})
	var turning sync.WaitGroup
	turning.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Now it is the folder, now the link; in between it is not there.
			for _, is := range []string{"real", "out"} {
				_ = os.Rename(d.path(is), d.path("turning"))
				_ = os.Rename(d.path("turning"), d.path(is))
			}
		}
	})
	read := 0
	for range 2000 {
		got, err := d.call("file_read", args{"path": "turning/secret"})
		if err == nil && got != "inside" {
			t.Errorf("read %q", got)
			break
		}
		if err == nil {
			read++
		}
	}
	for range 50 {
		_, _ = d.call("file_write", args{"path": "turning/written", "content": "x"})
	}
	close(stop)
	turning.Wait()
	if _, err := os.Stat(filepath.Join(outside, "written")); err == nil {
		t.Error("wrote outside")
	}
	t.Logf("%d of 2000 reads came through", read)
}
