//go:build unix

package files_test

import (
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/tool/files"
)

func TestRead_pipesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, nil)
	if err := syscall.Mkfifo(d.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.refused("file_read", args{"path": "pipe"}, "no regular file")
	d.refused("file_write", args{"path": "pipe", "content": "x"}, "no regular file")
	d.refused("file_edit", args{"path": "pipe", "old": "x", "new": "y"}, "no regular file")
}
