package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// damages alter one thing each of a session's files.
func damages(dir string) map[string]func(t testing.TB, r store.Ref) {
	tailOf := func(r store.Ref) string { return strings.TrimSuffix(documentOf(dir, r), ".json") + ".tail" }
	replace := func(path func(store.Ref) string, old, with string) func(t testing.TB, r store.Ref) {
		return func(t testing.TB, r store.Ref) {
			rewrite(t, path(r), func(raw []byte) []byte { return replaceOnce(t, raw, old, with) })
		}
	}
	document := func(r store.Ref) string { return documentOf(dir, r) }
	return map[string]func(t testing.TB, r store.Ref){
		"a message":             replace(document, "message 1", "message 9"),
		"a version":             replace(document, `"version":5`, `"version":4`),
		"a format version":      replace(document, `"formatVersion":1`, `"formatVersion":9`),
		"a checksum":            replace(document, `"sum":"`, `"sum":"0`),
		"a message of the tail": replace(tailOf, "in the tail", "on the tail"),
		"the end of the tail":   replace(tailOf, "}\n", "}\v"),
		"a space of the tail":   replace(tailOf, "in the", "in\x00the"),
	}
}

// ask reads everything there is of session a.
func ask(ctx context.Context, st *file.Store) storetest.Answers {
	got := storetest.Ask(ctx, st, ref("a"))
	l, held, err := st.Holding(ctx, ref("a"))
	raw, encoding := json.Marshal(l)
	got["lease"] = storetest.Answer{Text: string(raw), Err: errors.Join(err, encoding)}
	if !held {
		got["lease"] = storetest.Answer{Text: "none", Err: err}
	}
	page, err := st.List(ctx, session.DefaultTenant, store.Query{})
	for _, i := range page.Items {
		raw, encoding := json.Marshal(i)
		got["listed "+i.ID] = storetest.Answer{Text: string(raw), Err: errors.Join(err, encoding)}
	}
	return got
}

// TestRead_neverReturnsWhatABitFlipMade flips single bits anywhere in a
// session's files.
func TestRead_neverReturnsWhatABitFlipMade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{Now: noon})
	s := save(t, st, said(t, create(t, st, "a"), "one of two"), store.Commit{At: noon()})
	l, err := st.Acquire(t.Context(), ref("a"), "somebody", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s, err = st.Append(t.Context(), said(t, s, "first of the tail"), store.Append{Fence: l.Token})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), said(t, s, "last of the tail"), store.Append{Fence: l.Token}); err != nil {
		t.Fatal(err)
	}
	want := ask(t.Context(), st)
	for question, a := range want {
		if a.Err != nil {
			t.Fatalf("%s: %v", question, a.Err)
		}
	}
	random := rand.New(rand.NewPCG(11, 7))
	for _, name := range []string{"a.json", "a.tail", "a.lease"} {
		path := filepath.Join(dir, name)
		whole := readFile(t, path)
		var bits []int
		for bit := range 8 { // the ends decide how a file is read
			bits = append(bits, bit, 8+bit, 16+bit, 8*len(whole)-1-bit)
		}
		for range 80 {
			bits = append(bits, random.IntN(8*len(whole)))
		}
		for _, bit := range bits {
			flipped := bytes.Clone(whole)
			flipped[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(path, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			got := ask(t.Context(), st)
			if problem := got.Differ(want); problem != "" {
				t.Errorf("%s, byte %d of %d, bit %d: %s", name, bit/8, len(whole), bit%8, problem)
			}
			if got.Corrupt() == 0 {
				t.Errorf("%s, byte %d of %d, bit %d: no answer says that the session is corrupt", name, bit/8, len(whole), bit%8)
			}
			for question, a := range got {
				if a.Err != nil && !errors.Is(a.Err, session.ErrCorrupt) {
					t.Errorf("%s, byte %d of %d, bit %d: %s: %v, want CorruptError", name, bit/8, len(whole), bit%8, question, a.Err)
				}
			}
		}
		writeFile(t, path, whole)
	}
}

func TestRead_filesWithoutChecksumsAreRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{Now: noon})
	s := save(t, st, said(t, create(t, st, "a"), "one"), store.Commit{At: noon()})
	want := ask(t.Context(), st)
	path := documentOf(dir, ref("a"))
	rewrite(t, path, func(raw []byte) []byte { return bare(t, raw) })
	if bytes.Contains(readFile(t, path), []byte(`"sum"`)) {
		t.Fatal("the document still has a checksum")
	}
	if problem := ask(t.Context(), st).Differ(want); problem != "" {
		t.Error(problem)
	}
	writeFile(t, filepath.Join(dir, "a.lease"), fmt.Appendf(nil, `{"token":7,"holder":"somebody","until":%q}`+"\n", noon().Add(time.Hour).Format(time.RFC3339)))
	if l, held, err := st.Holding(t.Context(), ref("a")); err != nil || !held || l.Token != 7 {
		t.Errorf("holding %v %t, %v", l, held, err)
	}
	save(t, st, said(t, s, "two"), store.Commit{At: noon(), Fence: 7})
	if !bytes.Contains(readFile(t, path), []byte(`"sum"`)) {
		t.Error("the next save writes no checksum")
	}
}
