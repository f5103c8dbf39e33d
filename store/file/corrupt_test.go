package file_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

// hashes is the content of a directory, lock files left out: they have none.
func hashes(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		raw, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", strings.TrimPrefix(path, dir), sha256.Sum256(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// refused checks that a session whose document cannot be used is reported by
// everything that needs it and changed by nothing.
func refused(t *testing.T, st *file.Store, dir string, good session.Session, damage string) error {
	t.Helper()
	before := hashes(t, dir)
	_, loadErr := st.Load(t.Context(), ref("a"), true)
	if !errors.Is(loadErr, session.ErrCorrupt) && !errors.Is(loadErr, session.ErrNewerFormat) {
		t.Errorf("%s: load: %v, want CorruptError", damage, loadErr)
	}
	_, saveErr := st.Save(t.Context(), said(t, good, "more"), store.Commit{})
	_, appendErr := st.Append(t.Context(), said(t, good, "more"), store.Append{})
	for _, err := range []error{saveErr, appendErr} {
		if err == nil || loadErr == nil || err.Error() != loadErr.Error() {
			t.Errorf("%s: write: %v, want as load: %v", damage, err, loadErr)
		}
	}
	var conflict *session.ConflictError
	if _, err := st.Create(t.Context(), fresh(t, session.Identity{ID: "a"}), store.Commit{}); !errors.As(err, &conflict) || conflict.Reason != session.ReasonExists {
		t.Errorf("%s: create: %v, want ConflictError exists", damage, err)
	}
	if _, err := st.List(t.Context(), session.DefaultTenant, store.Query{Metadata: map[string]string{"k": "v"}}); err != nil {
		t.Errorf("%s: list: %v", damage, err)
	}
	if _, err := st.Interrupted(t.Context(), session.DefaultTenant); err != nil {
		t.Errorf("%s: interrupted: %v", damage, err)
	}
	if after := hashes(t, dir); after != before {
		t.Errorf("%s: the directory changed:\n%s%s", damage, before, after)
	}
	return loadErr
}

func TestDocument_everyPrefixIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := save(t, st, said(t, create(t, st, "a"), "one"), store.Commit{At: noon()})
	path := documentOf(dir, ref("a"))
	whole, more := readFile(t, path), said(t, s, "more")
	for n := range len(whole) {
		writeFile(t, path, whole[:n])
		if n%31 == 0 {
			if err := refused(t, st, dir, s, fmt.Sprintf("%d of %d bytes", n, len(whole))); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", n, len(whole), err)
			}
			continue
		}
		if _, err := st.Save(t.Context(), more, store.Commit{}); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%d of %d bytes: save: %v, want CorruptError", n, len(whole), err)
		}
		if !bytes.Equal(readFile(t, path), whole[:n]) {
			t.Fatalf("%d of %d bytes: the document was written over", n, len(whole))
		}
	}
	writeFile(t, path, whole)
	save(t, st, said(t, s, "two"), store.Commit{At: noon()})
}

func TestDocument_garbledBytesNeverPanicAndAreNeverOverwritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := save(t, st, said(t, create(t, st, "a"), "one"), store.Commit{At: noon()})
	path := documentOf(dir, ref("a"))
	whole, more := readFile(t, path), said(t, s, "more")
	for n := 0; n < len(whole); n += 3 {
		garbled := slices.Clone(whole)
		garbled[n] ^= 0x55
		writeFile(t, path, garbled)
		_, loadErr := st.Load(t.Context(), ref("a"), true)
		if !errors.Is(loadErr, session.ErrCorrupt) {
			t.Errorf("byte %d: load: %v", n, loadErr)
		}
		if _, err := st.Save(t.Context(), more, store.Commit{}); err == nil {
			t.Errorf("byte %d: saved over a document that cannot be read", n)
		}
		if !bytes.Equal(readFile(t, path), garbled) {
			t.Fatalf("byte %d: the document was written over", n)
		}
	}
}

func TestDocument_firstThingWrongIsTheReason(t *testing.T) {
	t.Parallel()
	change := func(old, with string) func(*testing.T, []byte) []byte {
		return func(t *testing.T, raw []byte) []byte { t.Helper(); return replaceOnce(t, raw, old, with) }
	}
	is := func(text string) func(*testing.T, []byte) []byte {
		return func(*testing.T, []byte) []byte { return []byte(text) }
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, []byte) []byte
		reason string
	}{
		"empty":             {is(""), "is not valid JSON: unexpected end of JSON input"},
		"two documents":     {func(_ *testing.T, raw []byte) []byte { return slices.Concat(raw, raw) }, "is not valid JSON: invalid character '{' after top-level value"},
		"a list":            {is("[]"), "is not a JSON object"},
		"null":              {is("null"), "is not a JSON object"},
		"nothing in it":     {is("{}"), "missing or invalid header"},
		"header is text":    {is(`{"header":"x"}`), "missing or invalid header"},
		"header alone":      {is(`{"header":{}}`), "missing or invalid definition"},
		"no state":          {is(`{"header":{},"definition":{}}`), "missing or invalid state"},
		"no format":         {is(`{"header":{},"definition":{},"state":{}}`), "missing or invalid format"},
		"another format":    {change(`"holdfast.session"`, `"x"`), "missing or invalid format"},
		"no format version": {change(`"formatVersion":1,`, ``), "missing or invalid formatVersion"},
		"format version 0":  {change(`"formatVersion":1`, `"formatVersion":0`), "missing or invalid formatVersion"},
		"unknown field":     {change(`"sessionId":`, `"color":1,"sessionId":`), "color"},
		"another id":        {change(`"sessionId":"a"`, `"sessionId":"b"`), `the header names session "b"`},
		"another tenant":    {change(`"tenant":"default"`, `"tenant":"acme"`), `the header names tenant "acme"`},
		"never saved":       {change(`"version":1`, `"version":0`), "the header has version 0"},
		"messages missing": {func(t *testing.T, raw []byte) []byte {
			return replaceOnce(t, replaceOnce(t, raw, `"messageCount":0`, `"messageCount":2`), `"partial":false`, `"partial":true`)
		}, "the transcript is not whole"},
		"newer, header first": {is(`{"formatVersion":9,"format":"holdfast.session"}`), "missing or invalid header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "sessions")
			st := open(t, dir, file.Config{})
			s := create(t, st, "a")
			path := documentOf(dir, ref("a"))
			writeFile(t, path, c.damage(t, bare(t, readFile(t, path))))
			err := refused(t, st, dir, s, name)
			var corrupt *session.CorruptError
			if !errors.As(err, &corrupt) || corrupt.ID != "a" || corrupt.Path != path || !strings.Contains(corrupt.Reason, c.reason) {
				t.Errorf("%v, want reason %q", err, c.reason)
			}
			if err := st.Delete(t.Context(), ref("a"), 0); err != nil {
				t.Errorf("delete: %v", err)
			}
			create(t, st, "a")
		})
	}
}

func TestDocument_ofANewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "a")
	rewrite(t, documentOf(dir, ref("a")), func(raw []byte) []byte { return changed(t, raw, `"formatVersion":1`, `"formatVersion":2`) })
	if err := refused(t, st, dir, s, "newer"); !errors.Is(err, session.ErrNewerFormat) {
		t.Errorf("%v, want NewerFormatError", err)
	}
	if _, err := st.Info(t.Context(), ref("a")); !errors.Is(err, session.ErrNewerFormat) {
		t.Errorf("info: %v, want NewerFormatError", err)
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil || len(page.Items) != 0 || len(page.Corrupt) != 1 {
		t.Errorf("list: %+v, %v", page, err)
	}
}

func TestDocument_thatIsNoFileIsCorrupt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	create(t, st, "good")
	writeDir(t, filepath.Join(dir, "a.json", "inside"))
	if _, err := st.Load(t.Context(), ref("a"), false); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("load: %v, want CorruptError", err)
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil || len(page.Items) != 1 || len(page.Corrupt) != 1 || page.Corrupt[0].ID != "a" {
		t.Errorf("list: %+v, %v", page, err)
	}
}

func TestList_ignoresForeignFilesAndReadsHeadersOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	create(t, st, "whole")
	create(t, st, "headless")
	create(t, st, "tailless")
	for _, name := range []string{"notes.txt", "-x.json", ".hidden.json", "a b.json", "x.json.bak", "ü.json"} {
		writeFile(t, filepath.Join(dir, name), []byte("{"))
	}
	rewrite(t, documentOf(dir, ref("headless")), func(raw []byte) []byte { return raw[:40] })
	rewrite(t, documentOf(dir, ref("tailless")), func(raw []byte) []byte { return raw[:len(raw)-10] })
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{Order: store.IDAsc})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 2 || page.Items[0].ID != "tailless" || page.Items[1].ID != "whole" {
		t.Errorf("items %+v, want tailless and whole", page.Items)
	}
	if len(page.Corrupt) != 1 || page.Corrupt[0].ID != "headless" {
		t.Errorf("corrupt %v, want headless", page.Corrupt)
	}
	page, err = st.List(t.Context(), session.DefaultTenant, store.Query{Order: store.IDAsc, Metadata: map[string]string{"k": "v"}})
	if err != nil || len(page.Items) != 0 || len(page.Corrupt) != 2 {
		t.Errorf("by metadata: %+v, %v; want two corrupt", page, err)
	}
}

func TestList_findsAHeaderLongerThanTheFirstRead(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions"), file.Config{})
	s := fresh(t, session.Identity{ID: "a", Kind: session.KindTask})
	prompt := strings.Repeat("long ", 5000)
	s, err := s.With(noon(), session.TaskRowChanged{Task: session.TaskRow{Title: "t", Prompt: prompt, Status: "running"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Create(t.Context(), s, store.Commit{}); err != nil {
		t.Fatal(err)
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Task.Prompt != prompt {
		t.Errorf("%d items, %d corrupt, %v", len(page.Items), len(page.Corrupt), err)
	}
}
