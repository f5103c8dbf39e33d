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

type args map[string]any

// desk is a workspace with its tools at hand.
type desk struct {
	t   *testing.T
	dir string
	set tool.Set
}

func newDesk(t *testing.T, c files.Config, content map[string]string) desk {
	t.Helper()
	c.Dir = t.TempDir()
	for name, text := range content {
		file := filepath.Join(c.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := files.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	set, err := tool.NewSet(w.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return desk{t, c.Dir, set}
}

func (d desk) call(name string, in args) (string, error) {
	d.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		d.t.Fatal(err)
	}
	used, ok := d.set.Get(name)
	if !ok {
		d.t.Fatalf("there is no tool %s", name)
	}
	got, err := used.Call(d.t.Context(), tool.Call{Arguments: raw})
	return got.Content, err
}

// must is a call that works.
func (d desk) must(name string, in args) string {
	d.t.Helper()
	got, err := d.call(name, in)
	if err != nil {
		d.t.Fatalf("%s %v: %v", name, in, err)
	}
	return got
}

// refused is a call whose error has the text.
func (d desk) refused(name string, in args, want string) {
	d.t.Helper()
	got, err := d.call(name, in)
	if err == nil || !strings.Contains(err.Error(), want) {
		d.t.Errorf("%s %v: got %q, error %v, want one with %q", name, in, got, err, want)
	}
}

func (d desk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// holds checks the content of a file on the disk.
func (d desk) holds(name, want string) {
	d.t.Helper()
	got, err := os.ReadFile(d.path(name))
	if err != nil || string(got) != want {
		d.t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
	}
}

func TestOpen_namesWhatIsWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, file + "-missing"} {
		if _, err := files.Open(files.Config{Dir: dir}); err == nil {
			t.Errorf("opened %q", dir)
		}
	}
}

func TestTools_saySoWhenACallMayRunAgain(t *testing.T) {
	t.Parallel()
	want := map[string]tool.Nature{
		"file_read": tool.ReadOnly, "file_list": tool.ReadOnly, "file_find": tool.ReadOnly, "file_search": tool.ReadOnly,
		"file_write": tool.Idempotent, "file_edit": tool.Once, "file_move": tool.Once, "file_delete": tool.Once,
	}
	all := newDesk(t, files.Config{}, nil).set.All()
	if len(all) != len(want) {
		t.Errorf("%d tools, want %d", len(all), len(want))
	}
	for _, used := range all {
		if spec := used.Spec(); spec.Nature != want[spec.Name] {
			t.Errorf("%s is %q, want %q", spec.Name, spec.Nature, want[spec.Name])
		}
	}
	for _, used := range newDesk(t, files.Config{ReadOnly: true}, nil).set.All() {
		if spec := used.Spec(); spec.Nature != tool.ReadOnly {
			t.Errorf("a read-only workspace has %s", spec.Name)
		}
	}
}

// hostile is a workspace beside a secret, with links of every kind to it.
func hostile(t *testing.T) desk {
	t.Helper()
	d := newDesk(t, files.Config{}, map[string]string{"in/file": "inside"})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(d.dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"absolute":  filepath.Join(outside, "secret"),
		"relative":  filepath.Join(relative, "secret"),
		"folder":    outside,
		"chain":     "folder",
		"in/upward": filepath.Join("..", relative),
		"loop":      "loop",
		"fine":      "in/file",
	} {
		if err := os.Symlink(to, d.path(link)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	t.Cleanup(func() {
		if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(got) != "outside" {
			t.Errorf("the file outside holds %q, %v", got, err)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
			t.Errorf("outside there is %v, %v", left, err)
		}
	})
	return d
}

func TestTools_nothingLeadsOut(t *testing.T) {
	t.Parallel()
	d := hostile(t)
	for _, path := range []string{
		"absolute", "relative", "folder/secret", "chain/secret", "in/upward/secret", "loop",
		"..", "../x", "in/../../x", "/", "", "in/\x00", d.dir + "-beside/x",
	} {
		for name, in := range map[string]args{
			"file_read":   {"path": path},
			"file_write":  {"path": path, "content": "overwritten", "create_dirs": true},
			"file_edit":   {"path": path, "old": "outside", "new": "edited"},
			"file_search": {"path": path, "pattern": "outside"},
		} {
			if name == "file_search" && path == "" {
				continue // the workspace itself
			}
			if got, err := d.call(name, in); err == nil && !strings.Contains(got, "nothing found") {
				t.Errorf("%s of %q: %q", name, path, got)
			}
		}
	}
	for name, in := range map[string]args{
		"file_list":   {"path": "folder"},
		"file_find":   {"path": "folder", "pattern": "*"},
		"file_move":   {"from": "folder/secret", "to": "stolen"},
		"file_delete": {"path": "folder/secret"},
	} {
		if got, err := d.call(name, in); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got, err := d.call("file_move", args{"from": "in/file", "to": "folder/moved"}); err == nil {
		t.Errorf("moved out: %q", got)
	}
	if got := d.must("file_search", args{"pattern": "outside"}); !strings.Contains(got, "nothing found") {
		t.Errorf("a search of everything found %q", got)
	}
	// Deleting a link, or a folder with links in it, leaves what they mean.
	d.must("file_delete", args{"path": "folder"})
	d.must("file_delete", args{"path": "in", "recursive": true})
}

func TestTools_linksInsideAreFollowed(t *testing.T) {
	t.Parallel()
	d := hostile(t)
	if got := d.must("file_read", args{"path": "fine"}); got != "inside" {
		t.Errorf("read %q", got)
	}
	d.must("file_edit", args{"path": "fine", "old": "inside", "new": "edited"})
	d.holds("in/file", "edited")
	d.must("file_write", args{"path": "fine", "content": "written"})
	d.holds("in/file", "written")
	if info, err := os.Lstat(d.path("fine")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
}

func TestTools_absolutePathsOfTheWorkspaceAreTaken(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{"a/b": "text"})
	if got := d.must("file_read", args{"path": d.path("a/b")}); got != "text" {
		t.Errorf("read %q", got)
	}
	d.refused("file_read", args{"path": "/etc/hostname"}, "outside the workspace")
}

func TestClose_laterCallsAreRefused(t *testing.T) {
	t.Parallel()
	w, err := files.Open(files.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	used := w.Tools()[1]
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := used.Call(t.Context(), tool.Call{Arguments: []byte(`{}`)}); err == nil {
		t.Errorf("listed %q", got.Content)
	}
}
