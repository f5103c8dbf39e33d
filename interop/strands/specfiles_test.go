package strands_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func TestSpecFiles_lieWhereTheSpecLooksIfThatIsSafe(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	natural := map[string]string{
		"agents.d/tea.yaml": "agents.d/tea.yaml", "./schema.json": "schema.json", "skills/brew/../brew/SKILL.md": "skills/brew/SKILL.md", "ü.md": "ü.md",
	}
	elsewhere := []string{
		"../outside.yaml", "/etc/absolute.yaml", "a/../../b", "session.json", "./Session.JSON", "pattern_state.json", "spec_snapshot.yaml", "spec_files.json",
		"spec_files/x", "agents/session_x/session.json", "holdfast/log", ".lock", "x/.hidden", "c:\\windows", "SCHEMA.json", "schema.json/below", "skills", "",
	}
	var files []spec.File
	for i, as := range []string{"agents.d/tea.yaml", "./schema.json", "skills/brew/../brew/SKILL.md", "ü.md"} {
		files = append(files, spec.File{As: as, Kind: spec.FileKinds()[i], Data: []byte("copy of " + as)})
	}
	for _, as := range elsewhere {
		files = append(files, spec.File{As: as, Kind: spec.RefFile, Data: []byte("copy of " + as)})
	}
	saved, err := d.SaveSpecFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range saved {
		want, ok := natural[f.As]
		if ok && f.Place != want || !ok && f.Place != "spec_files/"+f.SHA256 {
			t.Errorf("the copy of %q lies in %s", f.As, f.Place)
		}
		path := filepath.Join(string(d), filepath.FromSlash(f.Place))
		if got := get(t, path); got != "copy of "+f.As {
			t.Errorf("%s is %q", f.Place, got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", f.Place, info.Mode(), err)
		}
	}
	if got := get(t, filepath.Join(string(d), "session.json")); got != chainSession {
		t.Errorf("session.json is now %s", got)
	}
	read, err := d.SpecFiles()
	if err != nil || !reflect.DeepEqual(read, saved) {
		t.Errorf("read back: %+v (%v)", read, err)
	}
}

func TestSpecFiles_golden(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	if _, err := d.SaveSpecFiles([]spec.File{{As: "./ü.json", Kind: spec.SchemaFile, Data: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	const want = `[
  {
    "as": "./\u00fc.json",
    "file": "\u00fc.json",
    "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    "kind": "schema"
  }
]`
	if got := get(t, filepath.Join(string(d), "spec_files.json")); got != want {
		t.Errorf("spec_files.json is\n%s\nwant\n%s", got, want)
	}
}

func TestSpecFiles_equalCopiesShareAPlace(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	saved, err := d.SaveSpecFiles([]spec.File{
		{As: "a.md", Kind: spec.SkillFile, Data: []byte("1")}, {As: "./a.md", Kind: spec.RefFile, Data: []byte("1")}, {As: "x/../a.md", Kind: spec.RefFile, Data: []byte("2")},
	})
	if err != nil || saved[0].Place != "a.md" || saved[1].Place != "a.md" || saved[2].Place == "a.md" {
		t.Errorf("copies lie in %+v (%v)", saved, err)
	}
	if read, err := d.SpecFiles(); err != nil || !bytes.Equal(read[0].Data, read[1].Data) || string(read[2].Data) != "2" {
		t.Errorf("read back: %+v (%v)", read, err)
	}
}

func TestSpecFiles_noneWithoutAList(t *testing.T) {
	t.Parallel()
	if files, err := sessionDir(t).SpecFiles(); err != nil || files != nil {
		t.Errorf("files are %v (%v)", files, err)
	}
}

func TestSpecFiles_corrupt(t *testing.T) {
	t.Parallel()
	const hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	entry := func(file, kind string) string {
		return `[{"as": "x", "file": "` + file + `", "sha256": "` + hash + `", "kind": "` + kind + `"}]`
	}
	for name, c := range map[string]struct{ list, reason string }{
		"no JSON":      {"[", "not JSON"},
		"no list":      {"{}", "object"},
		"null":         {"null", "missing"},
		"outside":      {entry("../secret", "ref"), "outside"},
		"absolute":     {entry("/etc/passwd", "ref"), "outside"},
		"unknown kind": {entry("x", "image"), "unknown"},
		"missing":      {entry("x", "ref"), "not the copy"},
		"changed":      {entry("changed", "ref"), "not the copy"},
		"a link out":   {entry("link", "ref"), "not the copy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sessionDir(t)
			put(t, filepath.Join(string(d), "spec_files.json"), c.list)
			put(t, filepath.Join(string(d), "changed"), "{ }")
			outside := filepath.Join(t.TempDir(), "outside")
			put(t, outside, "{}")
			if err := os.Symlink(outside, filepath.Join(string(d), "link")); err != nil {
				t.Fatal(err)
			}
			_, err := d.SpecFiles()
			var corrupt *session.CorruptError
			if !errors.As(err, &corrupt) || corrupt.ID != id || !strings.Contains(corrupt.Reason, c.reason) {
				t.Errorf("error is %v, want %q", err, c.reason)
			}
		})
	}
}

func TestSaveSpecFiles_followsNoLinkOutOfTheSession(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(string(d), "skills")); err != nil {
		t.Fatal(err)
	}
	_, err := d.SaveSpecFiles([]spec.File{{As: "skills/deep/a.md", Kind: spec.SkillFile, Data: []byte("x")}})
	if err == nil {
		t.Error("a copy went through a link")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside is now %v (%v)", entries, err)
	}
	if _, err := d.SaveSpecFiles([]spec.File{{As: "skills/a.md", Kind: spec.SkillFile, Data: []byte("x")}}); err == nil {
		t.Error("a copy went through a link")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside is now %v (%v)", entries, err)
	}
}
