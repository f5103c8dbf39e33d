package file_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func replaceOnce(t testing.TB, raw []byte, old, with string) []byte {
	t.Helper()
	if bytes.Count(raw, []byte(old)) != 1 {
		t.Fatalf("%q does not occur once in %s", old, raw)
	}
	return bytes.Replace(raw, []byte(old), []byte(with), 1)
}

// points records what OnWrite is told.
type points struct {
	mu   sync.Mutex
	list []string
}

func (p *points) add(point string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, point)
}

// take is what was recorded since it was last called, "after" points only.
func (p *points) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	steps := []string{}
	for i, point := range p.list {
		if after, ok := strings.CutPrefix(point, "after "); ok {
			if i == 0 || p.list[i-1] != "before "+after {
				steps = append(steps, "unannounced "+after)
				continue
			}
			steps = append(steps, after)
		}
	}
	p.list = nil
	return steps
}

func wantSteps(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: steps %q, want %q", what, got, want)
	}
}

func TestWrites_areDurableBeforeTheNextStep(t *testing.T) {
	t.Parallel()
	var p points
	st := open(t, filepath.Join(t.TempDir(), "sessions"), file.Config{OnWrite: p.add})
	wantSteps(t, "open", p.take(), "store mkdir")

	replaced := func(what string) []string {
		return []string{what + " create", what + " write", what + " sync", what + " close", what + " rename", what + " syncdir"}
	}
	locked := func(rest ...[]string) []string {
		return slices.Concat(append([][]string{{"session lock"}}, rest...)...)
	}

	s := create(t, st, "a")
	wantSteps(t, "create", p.take(), locked(replaced("document"))...)
	s = save(t, st, said(t, s, "one"), store.Commit{At: noon()})
	wantSteps(t, "save", p.take(), locked(replaced("document"))...)

	l, err := st.Acquire(t.Context(), ref("a"), "somebody", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	wantSteps(t, "acquire", p.take(), locked([]string{"tokens lock"}, replaced("tokens"), replaced("lease"))...)
	for i, want := range [][]string{
		{"tail open", "tail write", "tail sync", "tail close", "tail syncdir"},
		{"tail open", "tail write", "tail sync", "tail close"},
	} {
		if s, err = st.Append(t.Context(), said(t, s, []string{"two", "three"}[i]), store.Append{Fence: l.Token}); err != nil {
			t.Fatal(err)
		}
		wantSteps(t, "append", p.take(), locked(want)...)
	}
	if l, err = st.Renew(t.Context(), ref("a"), l, time.Minute); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, "renew", p.take(), locked(replaced("lease"))...)
	save(t, st, said(t, s, "four"), store.Commit{At: noon(), Fence: l.Token, Release: true})
	wantSteps(t, "seal", p.take(), locked(replaced("document"), []string{"tail remove"}, replaced("lease"))...)
	if err := st.Delete(t.Context(), ref("a"), 0); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, "delete", p.take(), locked([]string{"document remove", "document syncdir", "lease remove", "lease syncdir"})...)
}

func TestFiles_areForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	for _, tenant := range []string{"", "acme"} {
		s, err := st.Create(t.Context(), fresh(t, session.Identity{ID: "a", Tenant: tenant}), store.Commit{At: noon()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Acquire(t.Context(), store.RefOf(s), "somebody", time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		appendTail(t, st, said(t, s, "hello"))
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else {
			files = append(files, e.Name())
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".tokens", ".tokens.lock", "a.json", "a.lease", "a.lock", "a.tail", "a.json", "a.lease", "a.lock", "a.tail"}
	if !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
}

func TestOpen_closesAnEmptyDirectoryToOthers(t *testing.T) {
	t.Parallel()
	empty, full := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(full, "notes.txt"), []byte("mine"))
	for dir, want := range map[string]fs.FileMode{empty: 0o700, full: 0o755} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		open(t, dir, file.Config{})
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("mode %o, want %o", info.Mode().Perm(), want)
		}
	}
}

func TestOpen_saysWhatIsWrongWithTheDirectory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	writeFile(t, path, nil)
	if _, err := file.Open(path, file.Config{}); err == nil || !strings.Contains(err.Error(), path+" is not a directory") {
		t.Errorf("a file: %v", err)
	}
	if _, err := file.Open(filepath.Join(path, "below"), file.Config{}); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("below a file: %v", err)
	}
	if _, err := file.Open("", file.Config{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("no directory: %v", err)
	}
}

func TestStore_withoutItsDirectoryFailsInsteadOfBeingEmpty(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "a")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r := ref("a")
	errs := map[string]error{}
	_, errs["create"] = st.Create(t.Context(), fresh(t, session.Identity{ID: "b"}), store.Commit{})
	_, errs["create for a tenant"] = st.Create(t.Context(), fresh(t, session.Identity{ID: "b", Tenant: "acme"}), store.Commit{})
	_, errs["save"] = st.Save(t.Context(), s, store.Commit{})
	_, errs["load"] = st.Load(t.Context(), r, true)
	_, errs["info"] = st.Info(t.Context(), r)
	_, errs["list"] = st.List(t.Context(), r.Tenant, store.Query{})
	_, errs["list of a tenant"] = st.List(t.Context(), "acme", store.Query{})
	_, errs["append"] = st.Append(t.Context(), s, store.Append{})
	_, errs["acquire"] = st.Acquire(t.Context(), r, "h", time.Minute)
	_, errs["interrupted"] = st.Interrupted(t.Context(), r.Tenant)
	errs["delete"] = st.Delete(t.Context(), r, 0)
	for call, err := range errs {
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s: %v, want the missing directory", call, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made again: %v", err)
	}
}

func TestWrite_removesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "a")
	stale := []string{".a.json.tmp", ".a.lease.tmp"}
	leave := func() {
		for _, name := range stale {
			writeFile(t, filepath.Join(dir, name), []byte(`{"format":"holdf`))
		}
	}
	gone := func(after string) {
		t.Helper()
		for _, name := range stale {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is there after %s (%v)", name, after, err)
			}
		}
	}
	leave()
	s = save(t, st, said(t, s, "one"), store.Commit{At: noon()})
	gone("a save")
	leave()
	appendTail(t, st, said(t, s, "two"))
	gone("an append")
	leave()
	if err := st.Delete(t.Context(), ref("a"), 0); err != nil {
		t.Fatal(err)
	}
	gone("a delete")
	leave()
	if err := st.Delete(t.Context(), ref("a"), 0); err != nil {
		t.Fatal(err)
	}
	gone("a delete of nothing else")
	leave()
	open(t, dir, file.Config{})
	gone("opening the store")
}

func TestSave_thatCannotWriteLeavesTheDocument(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "a")
	before := readFile(t, documentOf(dir, ref("a")))
	writeDir(t, filepath.Join(dir, ".a.json.tmp", "in the way"))
	if _, err := st.Save(t.Context(), said(t, s, "one"), store.Commit{}); err == nil {
		t.Fatal("saved")
	}
	if !bytes.Equal(before, readFile(t, documentOf(dir, ref("a")))) {
		t.Error("the document changed")
	}
	if err := os.RemoveAll(filepath.Join(dir, ".a.json.tmp")); err != nil {
		t.Fatal(err)
	}
	save(t, st, said(t, s, "one"), store.Commit{})
}

func writeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestSave_readsTheVersionEvenWhenTheFileLooksUnchanged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "a")
	path := documentOf(dir, ref("a"))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// Inode numbers are used again and clocks are coarse: a later version can
	// look the same in everything but its content.
	rewrite(t, path, func(raw []byte) []byte { return changed(t, raw, `"version":1`, `"version":3`) })
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	var conflict *session.ConflictError
	if _, err := st.Save(t.Context(), said(t, s, "old"), store.Commit{}); !errors.As(err, &conflict) || conflict.Have != 3 {
		t.Errorf("save: %v, want ConflictError stale", err)
	}
}

func TestDelete_leftHalfDoneIsFinishedByCreate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "a")
	l, err := st.Acquire(t.Context(), ref("a"), "somebody", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), said(t, s, "old"), store.Append{Fence: l.Token}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(documentOf(dir, ref("a"))); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Load(t.Context(), ref("a"), true); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("load: %v, want ErrNotFound", err)
	}
	create(t, st, "a") // the same agent id, so that only the missing tail can tell
	if got := texts(load(t, st, "a")); len(got) != 0 {
		t.Errorf("the new session says %q", got)
	}
	if l, held, err := st.Holding(t.Context(), ref("a")); held || err != nil {
		t.Errorf("holding %v %t %v", l, held, err)
	}
}

func TestStore_refusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions"), file.Config{})
	s := create(t, st, "a")
	keys := []store.Key{{Name: "k", Fingerprint: "f"}}
	taken, err := s.With(noon(), session.InboxTaken{ItemID: "i", ItemKind: "follow_up"})
	if err != nil {
		t.Fatal(err)
	}
	errs := map[string]error{}
	_, errs["create with keys"] = st.Create(t.Context(), fresh(t, session.Identity{ID: "b"}), store.Commit{Keys: keys})
	_, errs["save with keys"] = st.Save(t.Context(), s, store.Commit{Keys: keys})
	_, errs["append with keys"] = st.Append(t.Context(), s, store.Append{Keys: keys})
	_, errs["save that takes"] = st.Save(t.Context(), taken, store.Commit{})
	_, errs["append that takes"] = st.Append(t.Context(), taken, store.Append{})
	for call, err := range errs {
		var unsupported *session.UnsupportedError
		if !errors.As(err, &unsupported) {
			t.Errorf("%s: %v, want UnsupportedError", call, err)
		}
	}
	if got := load(t, st, "a"); got.Version() != 1 || got.HasTail() {
		t.Errorf("something was written: version %d, tail %t", got.Version(), got.HasTail())
	}
}

func TestLease_survivesAClockThatGoesBack(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	st := open(t, filepath.Join(t.TempDir(), "sessions"), file.Config{Now: clock.Now})
	s := create(t, st, "a")
	first, err := st.Acquire(t.Context(), ref("a"), "one", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(-time.Hour)
	if _, err := st.Acquire(t.Context(), ref("a"), "two", time.Minute); !errors.Is(err, session.ErrBusy) {
		t.Errorf("acquire: %v, want BusyError", err)
	}
	renewed, err := st.Renew(t.Context(), ref("a"), first, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if want := clock.Now().Add(time.Minute); !renewed.Until.Equal(want) {
		t.Errorf("renewed until %s, want %s", renewed.Until, want)
	}
	clock.Advance(2 * time.Minute)
	second, err := st.Acquire(t.Context(), ref("a"), "two", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	saved := save(t, st, said(t, s, "x"), store.Commit{At: noon().Add(-time.Hour), Fence: second.Token})
	if !saved.Info().UpdatedAt.After(s.Info().UpdatedAt) {
		t.Errorf("updated at %s after %s", saved.Info().UpdatedAt, s.Info().UpdatedAt)
	}
}
