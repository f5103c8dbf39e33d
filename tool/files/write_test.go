package files_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/tool/files"
)

func TestWrite_newAndInstead(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{MaxFile: 100}, map[string]string{"run.sh": "old"})
	if err := os.Chmod(d.path("run.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	if got := d.must("file_write", args{"path": "run.sh", "content": "new"}); got != "Wrote 3 bytes to run.sh, instead of what was there." {
		t.Errorf("got %q", got)
	}
	d.holds("run.sh", "new")
	if info, err := os.Stat(d.path("run.sh")); err != nil || (runtime.GOOS != "windows" && info.Mode().Perm() != 0o750) {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
	d.refused("file_write", args{"path": "a/b/c", "content": "x"}, "create_dirs")
	d.must("file_write", args{"path": "a/b/c", "content": "x", "create_dirs": true})
	d.holds("a/b/c", "x")
	d.refused("file_write", args{"path": "a", "content": "x"}, "is a directory")
	d.refused("file_write", args{"path": ".", "content": "x"}, "workspace itself")
	d.refused("file_write", args{"path": "long", "content": strings.Repeat("x", 101)}, "too long: 101 bytes, at most 100")
	entries, err := os.ReadDir(d.dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

func TestWrite_readersSeeOldOrNew(t *testing.T) {
	t.Parallel()
	old, changed := strings.Repeat("a", 1<<18), strings.Repeat("b", 1<<18)
	d := newDesk(t, files.Config{}, map[string]string{"file": old})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			if got, err := os.ReadFile(d.path("file")); err != nil || (string(got) != old && string(got) != changed) {
				t.Errorf("saw %d bytes, %v", len(got), err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range 10 {
		d.must("file_write", args{"path": "file", "content": []string{changed, old}[i%2]})
	}
	close(stop)
	readers.Wait()
}

func TestEdit_exactAndUnique(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{"f": "one two\none three\n", "crlf": "a\r\nb\r\nc\r\n", "bin": "a\x00"})
	d.refused("file_edit", args{"path": "f", "old": "one", "new": "1"}, "2 times, at lines 1, 2")
	d.holds("f", "one two\none three\n")
	if got := d.must("file_edit", args{"path": "f", "old": "one three", "new": "3"}); got != "Replaced it in f at line 2." {
		t.Errorf("got %q", got)
	}
	d.holds("f", "one two\n3\n")
	if got := d.must("file_edit", args{"path": "f", "old": "\n", "new": "!\n", "all": true}); got != "Replaced it in f 2 times." {
		t.Errorf("got %q", got)
	}
	d.holds("f", "one two!\n3!\n")
	d.must("file_edit", args{"path": "crlf", "old": "a\nb", "new": "x\ny\nz"})
	d.holds("crlf", "x\r\ny\r\nz\r\nc\r\n")
	d.refused("file_edit", args{"path": "f", "old": "", "new": "x"}, "old: is empty")
	d.refused("file_edit", args{"path": "f", "old": "x", "new": "x"}, "the same")
	d.refused("file_edit", args{"path": "bin", "old": "a", "new": "x"}, "binary")
	d.refused("file_edit", args{"path": "gone", "old": "a", "new": "x"}, "no such file")
}

func TestEdit_nearMissesAreShown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{"f.go": "package f\n\nfunc add(a, b int) int {\n\treturn a + b\n}\n"})
	d.refused("file_edit", args{"path": "f.go", "old": "func add(a, b int) int {\n    return a + b\n}", "new": "x"},
		"line 3 has other white space:\n     3  func add(a, b int) int {\n     4  \treturn a + b\n     5  }")
	d.refused("file_edit", args{"path": "f.go", "old": "func add(a, b int64) int64 {", "new": "x"}, "most like it:\n     3  func add(a, b int) int {")
	d.refused("file_edit", args{"path": "f.go", "old": "zzzzz qqqqq", "new": "x"}, "nor anything like it")
}

func TestEdit_noneOfManyIsLost(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "<%d>\n", i)
	}
	d := newDesk(t, files.Config{}, map[string]string{"f": text.String()})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := d.call("file_edit", args{"path": "f", "old": fmt.Sprintf("<%d>", i), "new": "done"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d.holds("f", strings.Repeat("done\n", 20))
}

func TestMove_asksBeforeItOverwrites(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{"a": "a", "b": "b", "dir/x": "x"})
	d.refused("file_move", args{"from": "a", "to": "b"}, "overwrite")
	d.refused("file_move", args{"from": "a", "to": "dir"}, "such as dir/a")
	d.refused("file_move", args{"from": "gone", "to": "c"}, "gone: no such file")
	d.refused("file_move", args{"from": ".", "to": "c"}, "workspace itself")
	d.refused("file_move", args{"from": "a", "to": "../a"}, "outside")
	d.holds("b", "b")
	d.must("file_move", args{"from": "a", "to": "b", "overwrite": true})
	d.holds("b", "a")
	d.must("file_move", args{"from": "dir", "to": "other"})
	d.holds("other/x", "x")
}

func TestDelete_foldersOnlyWhenSaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{"a": "a", "dir/x": "x"})
	d.must("file_delete", args{"path": "a"})
	d.refused("file_delete", args{"path": "a"}, "no such file")
	d.refused("file_delete", args{"path": "dir"}, "not empty")
	d.holds("dir/x", "x")
	d.must("file_delete", args{"path": "dir", "recursive": true})
	d.refused("file_delete", args{"path": ".", "recursive": true}, "workspace itself")
	if left, err := os.ReadDir(d.dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
