package spec_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func withFiles(t *testing.T) string {
	t.Helper()
	return filepath.Join(folder(t, map[string]string{
		"s.yaml": yamlOf(
			"agents: {a: {$ref: lib/a.yaml}, b: {prompt: x, input_schema: gone.json, output_schema: out.json}}",
			"skills: [{id: s, path: skills/s}, {id: t, path: ./skills/gone}, {id: u, path: skills/s/deep}]",
		),
		"lib/a.yaml":                "prompt: From a file\ninput_schema: in.json\noutput_schema: ../out.json\n",
		"lib/in.json":               `{"in": 1}`,
		"out.json":                  `{"out": 1}`,
		"skills/s/SKILL.md":         "Skill",
		"skills/s/deep/More.MD":     "More",
		"skills/s/script.py":        "print()",
		"skills/elsewhere/SKILL.md": "not asked for",
	}), "s.yaml")
}

func TestSnapshot_hasACopyOfEverythingTheSpecRefersTo(t *testing.T) {
	t.Parallel()
	path := withFiles(t)
	s, err := spec.Loader{}.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range snap.Files {
		got = append(got, fmt.Sprintf("%s %s %s", f.Kind, f.As, f.Data))
		if f.SHA256 != fmt.Sprintf("%x", sha256.Sum256(f.Data)) {
			t.Errorf("%s has the hash %s", f.As, f.SHA256)
		}
	}
	want := []string{
		"ref lib/a.yaml prompt: From a file\ninput_schema: in.json\noutput_schema: ../out.json\n",
		`schema lib/in.json {"in": 1}`, `schema out.json {"out": 1}`,
		"skill skills/s/SKILL.md Skill", "skill skills/s/deep/More.MD More",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !reflect.DeepEqual(snap.Absent, []string{"gone.json", "./skills/gone"}) {
		t.Errorf("absent are %q", snap.Absent)
	}
	hash, err := spec.HashFile(path)
	if err != nil || snap.SHA256 != hash || snap.Path != path || len(hash) != 64 {
		t.Errorf("hash %s, %v; snapshot of %s has %s", hash, err, snap.Path, snap.SHA256)
	}
	if _, err := spec.HashFile(path + ".gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("hash of a missing file: %v", err)
	}
}

func TestSnapshot_isAllThatIsNeededToLoadAgain(t *testing.T) {
	t.Parallel()
	path := withFiles(t)
	vars := spec.Map[string]{{Name: "k", Value: "v"}}
	s, err := spec.Loader{}.Load(path, vars)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	again, err := spec.Loader{}.Parse(snap.Source(), vars)
	if err != nil {
		t.Fatal(err)
	}
	if jsonOf(t, again) != jsonOf(t, s) {
		t.Errorf("got  %s\nwant %s", jsonOf(t, again), jsonOf(t, s))
	}
	if same, err := again.Snapshot(); err != nil || same != snap {
		t.Errorf("the snapshot of a snapshot differs: %v", err)
	}
}

func TestStale_namesTheFilesThatChanged(t *testing.T) {
	t.Parallel()
	path := withFiles(t)
	s, err := spec.Loader{}.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if stale, err := snap.Stale(); err != nil || stale != nil {
		t.Errorf("unchanged: %q, %v", stale, err)
	}
	dir := filepath.Dir(path)
	for _, name := range []string{"s.yaml", "lib/in.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "out.json")); err != nil {
		t.Fatal(err)
	}
	if stale, err := snap.Stale(); err != nil || !reflect.DeepEqual(stale, []string{path, "lib/in.json"}) {
		t.Errorf("changed: %q, %v", stale, err)
	}
}

func TestSnapshot_refusesMoreThanASessionShouldKeep(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 6<<20)
	dir := folder(t, map[string]string{
		"s.yaml": yamlOf("skills: [{id: s, path: s}]"), "s/1.md": large, "s/2.md": large, "s/3.md": large,
	})
	s, err := spec.Loader{}.Load(filepath.Join(dir, "s.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Snapshot()
	wrong := refused(t, err)
	if wrong.Pointer != "/skills/0/path" || wrong.Reason != `refers to "s/3.md"; with it the spec and its files are larger than 16 MiB` {
		t.Errorf("%v", wrong)
	}
}
