package strands_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
)

// Directories that strands-cli itself wrote, where there are any beside the
// checkout: they are not ours to distribute. The tests with fixtures of our own
// make the same promises everywhere.
const samples = "../../../shared/data/strands-sessions"

func TestSamples_readAndWrittenWithoutChangingAByte(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(samples); err != nil {
		t.Logf("no samples here: %v", err)
		return
	}
	dirs, err := filepath.Glob(filepath.Join(samples, "*", "session_*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%s holds no sessions (%v)", samples, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) {
			t.Parallel()
			from, to := strands.Dir(dir), strands.Dir(filepath.Join(t.TempDir(), filepath.Base(dir)))
			rewrite(t, from, to)
			compare(t, dir, string(to))
			compare(t, string(to), dir)
		})
	}
}

// rewrite copies a session by reading and writing it.
func rewrite(t *testing.T, from, to strands.Dir) {
	t.Helper()
	s, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Save(s, spec); err != nil {
		t.Fatal(err)
	}
	talks, err := from.Conversations(s.Metadata.SessionID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range talks {
		back, err := strands.FromSession(0, throughSession(t, strands.ToSession("", c.Messages)))
		if err != nil || len(back) != len(c.Messages) {
			t.Fatalf("%d messages came back as %d (%v)", len(c.Messages), len(back), err)
		}
		for i := range back {
			if asJSON(t, back[i].Body) != asJSON(t, c.Messages[i].Body) {
				t.Errorf("%s came back as %s", asJSON(t, c.Messages[i].Body), asJSON(t, back[i].Body))
			}
		}
		if shown := session.Sendable(strands.ToSession("", c.Messages)); session.ValidTranscript(shown) != nil || len(shown) == 0 {
			t.Errorf("a model is shown %s", asJSON(t, shown))
		}
		if err := to.SaveConversation(s.Metadata.SessionID, c, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// compare reports files of a directory that another has not, or not the same.
func compare(t *testing.T, a, b string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(a, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(a, path)
		if err != nil {
			return err
		}
		files++
		if got, want := get(t, filepath.Join(b, rel)), get(t, path); got != want {
			t.Errorf("%s is\n%s\nwas\n%s", rel, got, want)
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("compared %d files (%v)", files, err)
	}
}
