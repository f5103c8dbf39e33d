//go:build unix

package tools_test

import (
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/tools"
)

func TestFiles_pipesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBox(t, tools.Config{WorkDir: dir})
	fails(t, b, "file_read", map[string]any{"path": "pipe"}, "pipe is no regular file")
	fails(t, b, "tail", map[string]any{"path": "pipe"}, "pipe is no regular file")
	fails(t, b, "file_write", map[string]any{"path": "pipe", "content": "x"}, "pipe is no regular file")
}
