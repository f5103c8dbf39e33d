package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/files"
)

// permitted calls a tool with paths outside that permissions let it use.
func (d desk) permitted(name string, in args, paths ...string) (string, error) {
	d.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		d.t.Fatal(err)
	}
	permit := tool.Permit{Outside: map[string]string{}}
	for _, p := range paths {
		resolved, err := filepath.EvalSymlinks(filepath.Dir(p))
		if err != nil {
			d.t.Fatal(err)
		}
		permit.Outside[p] = filepath.Join(resolved, filepath.Base(p))
	}
	used, _ := d.set.Get(name)
	got, err := used.Call(tool.WithPermit(d.t.Context(), permit), tool.Call{Arguments: raw})
	return got.Content, err
}

func TestOutside_aPermittedPathWorksInEveryTool(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{"here.txt": "here\n"})
	out := t.TempDir()
	file, fresh, moved := filepath.Join(out, "notes.txt"), filepath.Join(out, "new.txt"), filepath.Join(out, "moved.txt")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		in    args
		paths []string
		want  string
	}{
		{"file_read", args{"path": file}, []string{file}, "one\ntwo\n"},
		{"file_edit", args{"path": file, "old": "two", "new": "three"}, []string{file}, "Replaced it in " + filepath.ToSlash(mustResolve(t, file))},
		{"file_write", args{"path": fresh, "content": "x\n"}, []string{fresh}, "to the new file"},
		{"file_list", args{"path": out}, []string{out}, "new.txt"},
		{"file_find", args{"path": out, "pattern": "*.txt"}, []string{out}, "notes.txt"},
		{"file_search", args{"path": out, "pattern": "three"}, []string{out}, "notes.txt:2:three"},
		{"file_move", args{"from": "here.txt", "to": moved}, []string{moved}, "Moved here.txt to"},
		{"file_delete", args{"path": fresh}, []string{fresh}, "Deleted"},
	} {
		got, err := d.permitted(c.name, c.in, c.paths...)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("the deleted file: %v", err)
	}
	if data, err := os.ReadFile(moved); err != nil || string(data) != "here\n" {
		t.Errorf("the moved file: %q, %v", data, err)
	}
	if _, err := os.Stat(d.path("here.txt")); !os.IsNotExist(err) {
		t.Errorf("the file that was moved away: %v", err)
	}
}

func mustResolve(t *testing.T, path string) string {
	t.Helper()
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func TestOutside_aPermitIsForThatPathAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, nil)
	out := t.TempDir()
	secret := filepath.Join(out, "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(out, "other")
	if _, err := d.permitted("file_read", args{"path": secret}, other); err == nil || !strings.Contains(err.Error(), "outside the workspace") {
		t.Errorf("read another path: %v", err)
	}
	if err := os.Symlink(secret, other); err != nil {
		t.Fatal(err)
	}
	if got, err := d.permitted("file_read", args{"path": other}, other); err == nil {
		t.Errorf("read %q through a link that was put there after the approval", got)
	}
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Symlink(out, folder); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(args{"path": "x"})
	if err != nil {
		t.Fatal(err)
	}
	read, _ := d.set.Get("file_read")
	permit := tool.Permit{Outside: map[string]string{"x": filepath.Join(folder, "secret")}}
	if got, err := read.Call(tool.WithPermit(t.Context(), permit), tool.Call{Arguments: raw}); err == nil {
		t.Errorf("read %q through a folder that has become a link", got.Content)
	}
}

func TestDiff_showsWhatACallWouldChangeAndChangesNothing(t *testing.T) {
	t.Parallel()
	numbers := "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	d := newDesk(t, files.Config{}, map[string]string{"n.txt": numbers, "bin": "a\x00b", "end": "no end"})
	for name, c := range map[string]struct {
		tool string
		in   args
		want string
	}{
		"an edit":       {"file_edit", args{"path": "n.txt", "old": "5\n", "new": "five\nand a half\n"}, "--- a/n.txt\n+++ b/n.txt\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and a half\n 6\n 7\n 8\n"},
		"two places":    {"file_write", args{"path": "n.txt", "content": "one\n2\n3\n4\n5\n6\n7\n8\nnine\n"}, "--- a/n.txt\n+++ b/n.txt\n@@ -1,4 +1,4 @@\n-1\n+one\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+nine\n"},
		"a new file":    {"file_write", args{"path": "new/x", "content": "a\nb\n"}, "--- /dev/null\n+++ b/new/x\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"all goes":      {"file_write", args{"path": "n.txt", "content": ""}, "--- a/n.txt\n+++ b/n.txt\n@@ -1,9 +0,0 @@\n-1\n-2\n-3\n-4\n-5\n-6\n-7\n-8\n-9\n"},
		"the same":      {"file_write", args{"path": "n.txt", "content": numbers}, ""},
		"no end":        {"file_write", args{"path": "end", "content": "no end\n"}, "--- a/end\n+++ b/end\n@@ -1 +1 @@\n-no end\n\\ No newline at end of file\n+no end\n"},
		"a binary file": {"file_write", args{"path": "bin", "content": "text\n"}, "--- a/bin\n+++ b/bin\n@@ -1 +1 @@\n-[binary, 3 bytes]\n+text\n"},
	} {
		raw, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		used, _ := d.set.Get(c.tool)
		if got, err := used.Spec().Diff(t.Context(), tool.Call{Arguments: raw}); err != nil || got != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
	if data, err := os.ReadFile(d.path("n.txt")); err != nil || string(data) != numbers {
		t.Errorf("a diff changed the file: %q, %v", data, err)
	}
	edit, _ := d.set.Get("file_edit")
	if _, err := edit.Spec().Diff(t.Context(), tool.Call{Arguments: json.RawMessage(`{"path":"n.txt","old":"x","new":"y"}`)}); err == nil {
		t.Error("an edit that does not fit has a diff")
	}
}

func TestDiff_ofHugeTextsIsBounded(t *testing.T) {
	t.Parallel()
	before, after := strings.Repeat("a\n", 1<<19), strings.Repeat("b\n", 1<<19)
	d := newDesk(t, files.Config{}, map[string]string{"big": before})
	raw, err := json.Marshal(args{"path": "big", "content": after})
	if err != nil {
		t.Fatal(err)
	}
	write, _ := d.set.Get("file_write")
	got, err := write.Spec().Diff(t.Context(), tool.Call{Arguments: raw})
	if err != nil || len(got) > 1<<20+100 || !strings.HasSuffix(got, "more lines]\n") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
