package strands_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
)

func repository(t *testing.T) (*strands.Repository, string, *bytes.Buffer) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "not", "yet", "there")
	var log bytes.Buffer
	repo, err := strands.New(strands.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return repo, dir, &log
}

func TestNew_needsADirectory(t *testing.T) {
	t.Parallel()
	var invalid *session.InvalidError
	if _, err := strands.New(strands.Config{}); !errors.As(err, &invalid) || invalid.Field != "Config.Dir" {
		t.Errorf("error is %v", err)
	}
}

func TestRepository_lifeOfASession(t *testing.T) {
	t.Parallel()
	repo, dir, _ := repository(t)
	if list, err := repo.List(); err != nil || len(list) != 0 {
		t.Errorf("an empty repository lists %v (%v)", list, err)
	}
	if there, err := repo.Exists(id); err != nil || there {
		t.Errorf("exists: %v (%v)", there, err)
	}
	want := chainState(t)
	if err := repo.Save(want, []byte("name: tea")); err != nil {
		t.Fatal(err)
	}
	if there, err := repo.Exists(id); err != nil || !there {
		t.Errorf("exists: %v (%v)", there, err)
	}
	if got, err := repo.Load(id); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("state is %+v (%v)", got, err)
	}
	home := filepath.Join(dir, "session_"+id)
	if path, err := repo.AgentsDir(id); err != nil || path != filepath.Join(home, "agents") {
		t.Errorf("agents lie in %s (%v)", path, err)
	}
	if path, err := repo.SpecSnapshotPath(id); err != nil || get(t, path) != "name: tea" {
		t.Errorf("snapshot lies in %s (%v)", path, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the repository has mode %v (%v)", info.Mode(), err)
	}
	if err := repo.Delete(id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	for name, err := range map[string]error{"delete": repo.Delete(id), "load": second(repo.Load(id))} {
		var missing *session.NotFoundError
		if !errors.As(err, &missing) || missing.ID != id {
			t.Errorf("%s of a deleted session: %v, want not found", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestRepository_listPassesOverWhatIsCorrupt(t *testing.T) {
	t.Parallel()
	repo, dir, log := repository(t)
	for i, name := range []string{"older", "newer"} {
		s := chainState(t)
		s.Metadata.SessionID, s.Metadata.UpdatedAt = name, at(i)
		if err := repo.Save(s, nil); err != nil {
			t.Fatal(err)
		}
	}
	// Headers only: no pattern state is read.
	put(t, filepath.Join(dir, "session_older", "pattern_state.json"), "{")
	put(t, filepath.Join(dir, "session_broken", "session.json"), "{")
	put(t, filepath.Join(dir, "session_moved", "session.json"), chainSession)
	put(t, filepath.Join(dir, "session_moved", "pattern_state.json"), "{}")
	put(t, filepath.Join(dir, "session_begun", "spec_snapshot.yaml"), "x")
	put(t, filepath.Join(dir, "elsewhere", "session.json"), chainSession)
	put(t, filepath.Join(dir, "session_file"), "")
	list, err := repo.List()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range list {
		ids = append(ids, m.SessionID)
	}
	if want := []string{"newer", "older"}; !reflect.DeepEqual(ids, want) {
		t.Errorf("listed are %v, want %v", ids, want)
	}
	for _, name := range []string{"session=broken", "session=moved"} {
		if !strings.Contains(log.String(), name) {
			t.Errorf("no warning names %s:\n%s", name, log)
		}
	}
	if strings.Contains(log.String(), "begun") {
		t.Errorf("a directory without a session is warned of:\n%s", log)
	}
	for _, name := range []string{"broken", "moved", "older"} {
		var corrupt *session.CorruptError
		if _, err := repo.Load(name); !errors.As(err, &corrupt) || corrupt.ID != name || !strings.HasPrefix(corrupt.Path, dir) {
			t.Errorf("load %s: %v, want corrupt with its path", name, err)
		}
	}
	if err := repo.Delete("broken"); err != nil {
		t.Errorf("a corrupt session cannot be deleted: %v", err)
	}
}

func TestRepository_deleteRefusesASessionThatRuns(t *testing.T) {
	t.Parallel()
	repo, _, _ := repository(t)
	if err := repo.Save(chainState(t), nil); err != nil {
		t.Fatal(err)
	}
	d, err := repo.Session(id)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Delete(id); !errors.Is(err, session.ErrBusy) {
		t.Errorf("error is %v, want busy", err)
	}
	if _, err := repo.Load(id); err != nil {
		t.Errorf("the session is damaged: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := repo.Delete(id); err != nil {
		t.Error(err)
	}
}

func TestRepository_refusesWhatIsNoID(t *testing.T) {
	t.Parallel()
	repo, _, _ := repository(t)
	for _, bad := range []string{"", "..", "a/b", "../x", ".hidden"} {
		s := chainState(t)
		s.Metadata.SessionID = bad
		for name, err := range map[string]error{
			"save": repo.Save(s, nil), "load": second(repo.Load(bad)), "delete": repo.Delete(bad), "exists": second(repo.Exists(bad)),
			"agents": second(repo.AgentsDir(bad)), "snapshot": second(repo.SpecSnapshotPath(bad)),
		} {
			if !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%s %q: %v, want invalid", name, bad, err)
			}
		}
	}
}
