package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

// withTail is a store with session a at version 1 and a tail of two lines, and
// the end of the first of them.
func withTail(t *testing.T) (st *file.Store, dir string, tail []byte, first int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "sessions")
	st = open(t, dir, file.Config{})
	s := create(t, st, "a")
	s = appendTail(t, st, said(t, s, "one"))
	appendTail(t, st, said(t, s, "two"))
	tail = readFile(t, filepath.Join(dir, "a.tail"))
	return st, dir, tail, bytes.IndexByte(tail, '\n') + 1
}

func TestTail_tornLastLineIsDroppedAndWrittenOver(t *testing.T) {
	t.Parallel()
	_, dir, tail, first := withTail(t)
	path := filepath.Join(dir, "a.tail")
	for n := range len(tail) {
		writeFile(t, path, tail[:n])
		st := open(t, dir, file.Config{}) // one that has not seen the tail
		want := []string{}
		if n >= first {
			want = append(want, "one")
		}
		s := load(t, st, "a")
		if got := texts(s); !slices.Equal(got, want) {
			t.Fatalf("%d of %d bytes: said %q, want %q", n, len(tail), got, want)
		}
		if n%23 != 0 && n != first && n != first-1 && n != len(tail)-1 {
			continue
		}
		appendTail(t, st, said(t, s, "again"))
		if got := texts(load(t, st, "a")); !slices.Equal(got, append(want, "again")) {
			t.Fatalf("%d of %d bytes, then an append: said %q", n, len(tail), got)
		}
	}
}

func TestTail_lineWithAHoleAtTheEndIsTorn(t *testing.T) {
	t.Parallel()
	st, dir, tail, first := withTail(t)
	for i := first + 20; i < first+60; i++ {
		tail[i] = 0
	}
	writeFile(t, filepath.Join(dir, "a.tail"), tail)
	if got := texts(load(t, st, "a")); !slices.Equal(got, []string{"one"}) {
		t.Errorf("said %q", got)
	}
}

func TestTail_anyOtherBadByteIsCorrupt(t *testing.T) {
	t.Parallel()
	st, dir, tail, first := withTail(t)
	path := filepath.Join(dir, "a.tail")
	create(t, st, "other")
	for n := range tail {
		garbled := slices.Clone(tail)
		garbled[n] ^= 0x15
		writeFile(t, path, garbled)
		_, err := st.Load(t.Context(), ref("a"), true)
		var corrupt *session.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Path != path {
			t.Fatalf("byte %d (first line ends at %d): %v, want CorruptError", n, first, err)
		}
		if !bytes.Equal(readFile(t, path), garbled) {
			t.Fatalf("byte %d: the tail was written over", n)
		}
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil || len(page.Items) != 1 || len(page.Corrupt) != 1 {
		t.Errorf("list: %+v, %v", page, err)
	}
	if _, err := open(t, dir, file.Config{}).Append(t.Context(), sealed(t, st, "a"), store.Append{}); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("append: %v, want CorruptError", err)
	}
}

func TestTail_lostLineIsCorrupt(t *testing.T) {
	t.Parallel()
	st, dir, tail, first := withTail(t)
	for name, data := range map[string][]byte{"the first is gone": tail[first:], "one comes twice": slices.Concat(tail[:first], tail[:first])} {
		writeFile(t, filepath.Join(dir, "a.tail"), data)
		if _, err := st.Load(t.Context(), ref("a"), true); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: %v, want CorruptError", name, err)
		}
	}
}

func TestTail_olderThanTheDocumentIsIgnored(t *testing.T) {
	t.Parallel()
	st, dir, tail, _ := withTail(t)
	s := save(t, st, load(t, st, "a"), store.Commit{At: noon()})
	writeFile(t, filepath.Join(dir, "a.tail"), tail) // as if the process had died before removing it
	st = open(t, dir, file.Config{})
	if got := load(t, st, "a"); got.HasTail() || !slices.Equal(texts(got), []string{"one", "two"}) {
		t.Errorf("said %q, tail %t", texts(got), got.HasTail())
	}
	appendTail(t, st, said(t, s, "three"))
	for name, st := range map[string]*file.Store{"the same store": st, "another store": open(t, dir, file.Config{})} {
		if got := texts(load(t, st, "a")); !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("%s: said %q", name, got)
		}
	}
}

func TestTail_ofALaterVersionIsCorrupt(t *testing.T) {
	t.Parallel()
	st, dir, _, _ := withTail(t)
	old := readFile(t, documentOf(dir, ref("a")))
	s := save(t, st, load(t, st, "a"), store.Commit{At: noon()})
	appendTail(t, st, said(t, s, "three"))
	writeFile(t, documentOf(dir, ref("a")), old) // a backup put back without its tail
	if _, err := st.Load(t.Context(), ref("a"), true); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("%v, want CorruptError", err)
	}
}

func TestAppend_seesWhatAnotherStoreAppended(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	one, two := open(t, dir, file.Config{}), open(t, dir, file.Config{})
	s := create(t, one, "a")
	var want []string
	for i := range 6 {
		text := fmt.Sprint(i)
		want = append(want, text)
		next := appendTail(t, []*file.Store{one, two}[i%2], said(t, s, text))
		for _, st := range []*file.Store{one, two} {
			var conflict *session.ConflictError
			if _, err := st.Append(t.Context(), said(t, s, "stale"), store.Append{}); !errors.As(err, &conflict) || conflict.Reason != session.ReasonOpenTail {
				t.Fatalf("append from an old value: %v, want ConflictError open_tail", err)
			}
		}
		s = next
	}
	if got := texts(load(t, two, "a")); !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
}

func TestInterrupted_listsWhatNobodyContinues(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions"), file.Config{})
	create(t, st, "idle")
	appendTail(t, st, said(t, create(t, st, "tail"), "one"))
	running, err := create(t, st, "running").With(noon(), session.ExecutionStarted{ExecutionID: "e"})
	if err != nil {
		t.Fatal(err)
	}
	save(t, st, running, store.Commit{At: noon()})
	leased := create(t, st, "leased")
	l, err := st.Acquire(t.Context(), ref("leased"), "somebody", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), said(t, leased, "one"), store.Append{Fence: l.Token}); err != nil {
		t.Fatal(err)
	}
	refused := appendTail(t, st, said(t, create(t, st, "discarded"), "one"))
	discarded, err := session.DiscardTail(sealed(t, st, "discarded"), refused.Seq(), refused.Seq(), noon())
	if err != nil {
		t.Fatal(err)
	}
	appendTail(t, st, discarded)

	refs, err := st.Interrupted(t.Context(), session.DefaultTenant)
	if err != nil || !slices.Equal(refs, []store.Ref{ref("running"), ref("tail")}) {
		t.Errorf("%v, %v; want running and tail", refs, err)
	}
}

// sealed is a session without its tail.
func sealed(t *testing.T, st store.Store, id string) session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), ref(id), false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
