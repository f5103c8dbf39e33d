package definition_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/session"
)

// files makes a directory of files; a name may have a directory of its own.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRegistry_badFileStopsNoOther(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "agents")
	for recursive, want := range map[bool][]string{false: {"helper", "plain"}, true: {"helper", "plain", "reader"}} {
		r := definition.NewRegistry(definition.Source{Dir: dir, Recursive: recursive})
		if got := r.Names(); !reflect.DeepEqual(got, want) {
			t.Errorf("recursive %v: names are %v, want %v", recursive, got, want)
		}
		bad := r.Problems()
		if len(bad) != 1 || bad[0].Path != filepath.Join(dir, "broken.json") || !errors.Is(bad[0], session.ErrDefinition) || !strings.Contains(bad[0].Error(), "broken.json") {
			t.Errorf("recursive %v: problems are %v, want the one file", recursive, bad)
		}
	}
}

func TestRegistry_missIsNotFoundWithTheNames(t *testing.T) {
	t.Parallel()
	r := definition.NewRegistry(definition.Source{Dir: files(t, map[string]string{"b.yaml": "name: b", "a.yaml": "name: a"})})
	_, err := r.Get("c")
	var miss *session.NotFoundError
	if !errors.As(err, &miss) || miss.What != "definition" || miss.ID != "c" || !reflect.DeepEqual(miss.Available, []string{"a", "b"}) {
		t.Errorf("error is %#v", err)
	}
	empty := definition.NewRegistry(definition.Source{Dir: filepath.Join(t.TempDir(), "missing"), Recursive: true})
	if len(empty.Names()) != 0 || len(empty.Problems()) != 0 {
		t.Errorf("a missing directory has %v and %v", empty.Names(), empty.Problems())
	}
	if _, err := empty.Get("a"); err == nil || err.Error() != `definition "a" not found; available: none` {
		t.Errorf("error is %v", err)
	}
}

func TestRegistry_laterSourceWins(t *testing.T) {
	t.Parallel()
	user := files(t, map[string]string{"a.yaml": "name: a\nlabel: user", "b.yaml": "name: b\nlabel: user"})
	project := files(t, map[string]string{"other.json": `{"name":"a","label":"project"}`})
	r := definition.NewRegistry(definition.Source{Dir: user}, definition.Source{Dir: project})
	var labels []string
	for _, d := range r.All() {
		labels = append(labels, d.Name+"="+d.Label)
	}
	if want := []string{"a=project", "b=user"}; !reflect.DeepEqual(labels, want) {
		t.Errorf("definitions are %v, want %v", labels, want)
	}
	if len(r.Problems()) != 0 {
		t.Errorf("an override is reported: %v", r.Problems())
	}
	if got := r.Path("a"); got != filepath.Join(project, "other.json") {
		t.Errorf("path is %q", got)
	}
}

func TestRegistry_oneNameInTwoFilesIsRefused(t *testing.T) {
	t.Parallel()
	user := files(t, map[string]string{"a.yaml": "name: a"})
	project := files(t, map[string]string{"x.yaml": "name: a", "sub/y.md": "---\nname: a\n---\nprompt", "b.yaml": "name: b"})
	r := definition.NewRegistry(definition.Source{Dir: user}, definition.Source{Dir: project, Recursive: true})
	if got := r.Names(); !reflect.DeepEqual(got, []string{"b"}) {
		t.Errorf("names are %v, want b alone", got)
	}
	first, second := filepath.Join(project, "sub", "y.md"), filepath.Join(project, "x.yaml")
	_, err := r.Get("a")
	if !errors.Is(err, session.ErrDefinition) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
		t.Errorf("error is %v, want one that names both files", err)
	}
	bad := r.Problems()
	if len(bad) != 2 || bad[0].Path != first || bad[1].Path != second {
		t.Errorf("problems are %v, want both files", bad)
	}
	if _, err := r.Save(session.Definition{Name: "a"}, ".json", true); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("saving a contested name: %v", err)
	}
	third := files(t, map[string]string{"a.yaml": "name: a\nlabel: settled"})
	r = definition.NewRegistry(definition.Source{Dir: project, Recursive: true}, definition.Source{Dir: third})
	if d, err := r.Get("a"); err != nil || d.Label != "settled" {
		t.Errorf("a later source does not settle it: %v", err)
	}
}

func TestRegistry_linksAreFollowedAndLoopsEnd(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{"sub/a.yaml": "name: a", ".hidden/h.yaml": "name: h", ".h.yaml": "name: hh"})
	elsewhere := files(t, map[string]string{"b.yaml": "name: b"})
	for link, target := range map[string]string{
		"sub/up": "..", "sub/self": ".", "away": elsewhere, "again": elsewhere, "dangling.yaml": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skipf("links are not possible here: %v", err)
		}
	}
	r := definition.NewRegistry(definition.Source{Dir: dir, Recursive: true})
	if got := r.Names(); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("names are %v", got)
	}
	if bad := r.Problems(); len(bad) != 1 || bad[0].Path != filepath.Join(dir, "dangling.yaml") {
		t.Errorf("problems are %v, want the dangling link", bad)
	}
}

func TestRegistry_returnsCopies(t *testing.T) {
	t.Parallel()
	r := definition.NewRegistry(definition.Source{Dir: files(t, map[string]string{"a.yaml": "name: a\ntools: [x]"})})
	d, err := r.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	d.Tools[0] = "changed"
	r.All()[0].Tools[0] = "changed"
	if again, _ := r.Get("a"); again.Tools[0] != "x" {
		t.Errorf("the registry's definition became %v", again.Tools)
	}
}

func TestRegistry_savesIntoTheLastSource(t *testing.T) {
	t.Parallel()
	user := files(t, map[string]string{"a.yaml": "name: a\nlabel: user"})
	project := filepath.Join(t.TempDir(), "new", "agents")
	r := definition.NewRegistry(definition.Source{Dir: user}, definition.Source{Dir: project})
	path, err := r.Save(session.Definition{Name: "a", Label: "project", Tools: []string{"x", "x"}}, ".JSON", false)
	if err != nil || path != filepath.Join(project, "a.json") {
		t.Fatalf("saved to %q: %v", path, err)
	}
	if d, _ := r.Get("a"); d.Label != "project" || len(d.Tools) != 1 {
		t.Errorf("after saving, Get gives %+v", d)
	}
	if d, _ := definition.Load(filepath.Join(user, "a.yaml")); d.Label != "user" {
		t.Errorf("the user's own file became %q", d.Label)
	}
	if _, err := r.Save(session.Definition{Name: "a"}, ".yaml", false); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("second save: %v, want ErrInvalid", err)
	}
	path, err = r.Save(session.Definition{Name: "a", Label: "third"}, ".yaml", true)
	if err != nil || path != filepath.Join(project, "a.json") {
		t.Errorf("overwriting went to %q: %v", path, err)
	}
	again := definition.NewRegistry(definition.Source{Dir: user}, definition.Source{Dir: project})
	if d, err := again.Get("a"); err != nil || d.Label != "third" || len(again.Problems()) != 0 {
		t.Errorf("a new registry sees %+v, %v, %v", d, err, again.Problems())
	}
	if _, err := definition.NewRegistry().Save(session.Definition{Name: "a"}, ".yaml", false); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("saving without a source: %v", err)
	}
}

func TestRegistry_servesMany(t *testing.T) {
	t.Parallel()
	r := definition.NewRegistry(definition.Source{Dir: t.TempDir()})
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			name := fmt.Sprintf("agent-%d", i)
			if _, err := r.Save(session.Definition{Name: name}, ".yaml", false); err != nil {
				t.Errorf("save %s: %v", name, err)
			}
			if _, err := r.Get(name); err != nil {
				t.Errorf("get %s: %v", name, err)
			}
			_, _ = r.Names(), r.All()
		})
	}
	done.Wait()
	if n := len(r.Names()); n != 8 {
		t.Errorf("%d definitions, want 8", n)
	}
}
