package sqlite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// askAll reads everything of the sessions of small.
func askAll(ctx context.Context, st *sqlite.Store, ids ...string) storetest.Answers {
	var refs []store.Ref
	for _, id := range ids {
		refs = append(refs, ref(id))
	}
	got := storetest.Ask(ctx, st, refs...)
	e, _, err := st.Entry(ctx, rememberer(), "likes", 0)
	got["entry"] = storetest.Answer{Text: string(e.Value), Err: err}
	page, err := st.List(ctx, session.DefaultTenant, store.Query{Order: store.IDAsc})
	for _, i := range page.Items {
		raw, encoding := json.Marshal(i)
		got["listed "+i.ID] = storetest.Answer{Text: string(raw), Err: errors.Join(err, encoding)}
	}
	return got
}

// small fills a store with little of everything, and returns the ids.
func small(t *testing.T, path string) (ids []string, want storetest.Answers) {
	t.Helper()
	st := open(t, path, sqlite.Config{Now: noon})
	st.RestIndex()
	parent := create(t, st, "parent")
	for i := range 4 {
		parent = save(t, st, said(t, parent, fmt.Sprintf("message %d of the parent", i)))
	}
	save(t, st, said(t, fork(t, st, parent, "child"), "of the child"))
	tellOpen(t, st)
	save(t, st, save(t, st, create(t, st, "unchanged")))
	tellMemories(t, st)
	ids = []string{"parent", "child", "open", "unchanged"}
	want = askAll(t.Context(), st, ids...)
	for name, a := range want {
		if a.Err != nil && !errors.Is(a.Err, session.ErrInvalid) { // a version that is not there
			t.Fatalf("%s: %v", name, a.Err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return ids, want
}

// reopened opens a database with this content and reads it. It has no answer if
// the database cannot be opened.
func reopened(t *testing.T, path string, data []byte, ids []string) storetest.Answers {
	t.Helper()
	for _, beside := range []string{"-wal", "-shm", "-mark"} {
		if err := os.RemoveAll(path + beside); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), path, sqlite.Config{Now: noon})
	if err != nil {
		return nil
	}
	st.RestIndex()
	got := askAll(t.Context(), st, ids...)
	_ = st.Close() // of a damaged file; what counts was read
	return got
}

// TestRead_neverReturnsWhatABitFlipMade flips single bits anywhere in the file.
func TestRead_neverReturnsWhatABitFlipMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	ids, want := small(t, path)
	data := read(t, path)
	random := rand.New(rand.NewPCG(11, 7))
	noticed := 0
	for range 60 {
		at, bit := random.IntN(len(data)), random.IntN(8)
		flipped := bytes.Clone(data)
		flipped[at] ^= 1 << bit
		got := reopened(t, filepath.Join(t.TempDir(), "sessions.db"), flipped, ids)
		if problem := got.Differ(want); problem != "" {
			t.Errorf("byte %d of %d, bit %d: %s", at, len(data), bit, problem)
		}
		for name, a := range got {
			if a.Err != nil && want[name].Err == nil {
				noticed++
				break
			}
		}
	}
	if noticed == 0 {
		t.Error("no flip was noticed: the test reads nothing")
	}
}

// TestRead_noticesABitFlipInAMessage flips bits of each byte of a message's text.
func TestRead_noticesABitFlipInAMessage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	_, want := small(t, path)
	data := read(t, path)
	text := []byte("message 2 of the parent")
	if !bytes.Contains(data, text) || want["parent log"].Err != nil {
		t.Fatal("the message is not in the file")
	}
	for i := 0; i < len(text)*8; i += 7 {
		other := bytes.Clone(text)
		other[i/8] ^= 1 << (i % 8)
		flipped := bytes.ReplaceAll(data, text, other) // pages that are free have copies
		got := reopened(t, path, flipped, []string{"parent", "child"})
		for _, name := range []string{"parent load with tail", "child whole", "parent log"} {
			var corrupt *session.CorruptError
			if err := got[name].Err; !errors.As(err, &corrupt) || corrupt.Record == 0 {
				t.Fatalf("byte %d, bit %d: %s says %v, want a CorruptError that names the record", i/8, i%8, name, err)
			}
		}
	}
}

// damages alter one thing each of a session, behind the store's back.
func damages(path string, damaged *bool) map[string]func(t testing.TB, r store.Ref) {
	const log = "(SELECT log FROM sessions WHERE tenant = ?1 AND id = ?2)"
	all := map[string]func(t testing.TB, r store.Ref){}
	for name, statement := range map[string]string{
		"a body":                   "UPDATE changes SET data = CAST(replace(CAST(data AS TEXT), 'message 1', 'message 9') AS BLOB) WHERE log = " + log,
		"a kind":                   "UPDATE changes SET kind = 'name_changed' WHERE seq = 3 AND log = " + log,
		"a version":                "UPDATE changes SET version = 9 WHERE seq = 3 AND log = " + log,
		"a time":                   "UPDATE changes SET at = at + 1 WHERE seq = 3 AND log = " + log,
		"two rows swapped":         "UPDATE changes SET (data, at, sum) = (SELECT data, at, sum FROM changes o WHERE o.log = changes.log AND o.seq = 5 - changes.seq) WHERE seq IN (2, 3) AND log = " + log,
		"a row of another session": "UPDATE changes SET log = " + log + " + 1000 WHERE seq = 3 AND log = " + log + " OR log = -1",
		"a row in the middle gone": "DELETE FROM changes WHERE seq = 3 AND log = " + log,
		"the last row gone":        "DELETE FROM changes WHERE seq = 6 AND log = " + log,
		"the tail gone":            "DELETE FROM changes WHERE seq > 4 AND log = " + log,
		"a row too many":           "INSERT INTO changes (log, seq, version, kind, at, data, sum) SELECT log, seq + 1, version, kind, at, data, sum FROM changes WHERE seq = 6 AND log = " + log,
		"an older row":             "UPDATE sessions SET version = 4, seq = 4, last_seq = 4 WHERE log = " + log,
		"a commit's actor":         "UPDATE changes SET actor = 'mallory' WHERE version = 3 AND log = " + log,
		"a commit's time":          "UPDATE changes SET sealed_at = sealed_at + 1 WHERE version = 3 AND log = " + log,
		"a commit gone":            "DELETE FROM commits WHERE log = " + log,
		"an empty commit":          "UPDATE commits SET at = at + 1 WHERE log = " + log,
		"a head":                   "UPDATE heads SET data = CAST(replace(CAST(data AS TEXT), 'tester', 'taster') AS BLOB) WHERE log = " + log,
		"a head of another place":  "UPDATE heads SET seq = seq + 1 WHERE log = " + log,
		"a head of another":        "UPDATE heads SET (data, sum, seq, log_sum) = (SELECT data, sum, seq, log_sum FROM heads WHERE log = 2) WHERE log <> 2 AND log = " + log,
		"a header":                 "UPDATE sessions SET header = replace(header, '\"status\":\"active\"', '\"status\":\"failed\"') WHERE log = " + log,
		"discarded":                "UPDATE changes SET discarded = 1 WHERE seq = 5 AND log = " + log,
		"an item":                  "UPDATE inbox SET data = CAST(replace(CAST(data AS TEXT), 'hello', 'hullo') AS BLOB) WHERE log = " + log,
	} {
		all[name] = func(t testing.TB, r store.Ref) {
			*damaged = true
			rewrite(t, open(t, path, sqlite.Config{}), statement, r.Tenant, r.ID)
		}
	}
	return all
}

// TestEntry_thatWasAlteredIsCorrupt alters an entry of a memory.
func TestEntry_thatWasAlteredIsCorrupt(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{Now: noon})
	tellMemories(t, st)
	rewrite(t, st, `UPDATE memory_entries SET value = CAST('"mud"' AS BLOB)`)
	if e, _, err := st.Entry(t.Context(), rememberer(), "likes", 0); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("read %s, %v; want it to be corrupt", e.Value, err)
	}
}
