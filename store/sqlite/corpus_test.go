package sqlite_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The corpus holds a database of every schema there was, as the store of that
// time wrote it, and what that store read from it.
const corpus = "testdata/corpus"

var writeCorpus = flag.Bool("corpus", false, "write the corpus of the newest schema anew")

// TestCorpus_readsAsItDidWhenItWasWritten opens a copy of each database, which
// migrates it, and reads everything through the store.
func TestCorpus_readsAsItDidWhenItWasWritten(t *testing.T) {
	t.Parallel()
	if *writeCorpus {
		writeNewestCorpus(t)
	}
	databases, err := filepath.Glob(filepath.Join(corpus, "*.db.gz"))
	if err != nil || len(databases) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, packed := range databases {
		t.Run(filepath.Base(packed), func(t *testing.T) {
			t.Parallel()
			path := unpacked(t, packed)
			for _, what := range []string{"migrated", "opened again"} {
				steps := []string{}
				st, err := sqlite.Open(t.Context(), path, sqlite.Config{Now: noon, OnMigrate: func(done, total int) {
					steps = append(steps, fmt.Sprintf("%d of %d", done, total))
				}})
				if err != nil {
					t.Fatal(err)
				}
				if want := stepsFrom(t, packed, what); !slices.Equal(steps, want) {
					t.Errorf("%s: told of steps %q, want %q", what, steps, want)
				}
				healthy(t, st)
				wantSameReading(t, what, readingOf(t, st), read(t, strings.TrimSuffix(packed, ".db.gz")+".json"))
				if schemaOf(t, packed) >= firstMemories {
					remembers(t, st)
				}
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
			}
			carriesOn(t, path)
		})
	}
}

// stepsFrom is what is told while a database of the corpus is opened.
func stepsFrom(t *testing.T, packed, what string) []string {
	t.Helper()
	all, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	steps, total := []string{}, len(all)-schemaOf(t, packed)
	for done := 0; what == "migrated" && total > 0 && done <= total; done++ {
		steps = append(steps, fmt.Sprintf("%d of %d", done, total))
	}
	return steps
}

// schemaOf is the schema that a database of the corpus was written with.
func schemaOf(t *testing.T, packed string) (schema int) {
	t.Helper()
	if _, err := fmt.Sscanf(filepath.Base(packed), "schema%d.db.gz", &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// firstMemories is the schema from which on the corpus holds memories.
const firstMemories = 3

// carriesOn writes to what was migrated.
func carriesOn(t *testing.T, path string) {
	t.Helper()
	st := open(t, path, sqlite.Config{Now: noon})
	long := save(t, st, said(t, load(t, st, "long"), "carries on"))
	save(t, st, said(t, fork(t, st, long, "new-fork"), "carries on too"))
	save(t, st, said(t, load(t, st, "grandchild"), "and so does an old fork"))
	if err := st.Delete(t.Context(), ref("child"), 0); err != nil {
		t.Fatal(err)
	}
	healthy(t, st)
}

// tell fills a store with one of everything.
func tell(t *testing.T, st *sqlite.Store) {
	t.Helper()
	long := create(t, st, "long")
	for i := range 40 { // more than lie between two heads that are kept
		long = said(t, long, fmt.Sprintf("message %d", i))
		if i%4 == 3 {
			long = with(t, long, session.WindowMoved{Strategy: session.PruneSliding, To: long.Message(long.Len() - 2).Seq, Keep: []int64{}})
		}
		long = save(t, st, long)
	}
	parent := save(t, st, said(t, create(t, st, "parent"), "shared by three"))
	child := save(t, st, said(t, fork(t, st, parent, "child"), "shared by two"))
	save(t, st, said(t, fork(t, st, child, "grandchild"), "own"))
	save(t, st, said(t, parent, "not shared"))
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
	rewound := save(t, st, with(t, said(t, create(t, st, "rewound"), "stays"), session.MetadataWritten{Key: "k", Value: json.RawMessage(`"v"`)}))
	later := save(t, st, with(t, said(t, rewound, "taken back"), session.MetadataRemoved{Key: "k"}))
	back, err := later.Rewound(rewound, noon())
	if err != nil {
		t.Fatal(err)
	}
	save(t, st, said(t, save(t, st, back), "after it"))
	cleared, err := save(t, st, said(t, create(t, st, "cleared"), "gone from sight")).Cleared(noon())
	if err != nil {
		t.Fatal(err)
	}
	save(t, st, said(t, save(t, st, cleared), "fresh start"))
	save(t, st, with(t, create(t, st, "deleted"), session.StatusChanged{Status: session.Deleted}))
	save(t, st, create(t, st, "unchanged")) // a version without a change
	tellOpen(t, st)
	tellLarge(t, st)
	tellOther(t, st)
	tellMemories(t, st)
}

// tellOpen leaves an open tail under a lease, with an inbox and keys.
func tellOpen(t *testing.T, st *sqlite.Store) {
	t.Helper()
	s := create(t, st, "open")
	for _, id := range []string{"taken", "unread", "given-back"} {
		item := store.Item{ID: id, Kind: store.ItemFollowUp, Payload: session.Values{"text": json.RawMessage(`"hello"`)}, At: noon()}
		if err := st.Post(t.Context(), ref("open"), item); err != nil {
			t.Fatal(err)
		}
	}
	s, err := st.Save(t.Context(), said(t, s, "sealed"), store.Commit{ID: "keyed", At: noon(), Actor: "someone", Keys: []store.Key{{Name: "sealed", Fingerprint: "f1"}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := st.Acquire(t.Context(), ref("open"), "elsewhere", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	appended := func(s session.Session, keys ...store.Key) session.Session {
		s, err := st.Append(t.Context(), s, store.Append{Fence: l.Token, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s = appended(with(t, said(t, s, "in the tail"), session.InboxTaken{ItemID: "taken", ItemKind: "follow_up"}), store.Key{Name: "open", Fingerprint: "f2"})
	gone := appended(with(t, said(t, s, "discarded"), session.InboxTaken{ItemID: "given-back", ItemKind: "follow_up"}), store.Key{Name: "forgotten"})
	if s, err = session.DiscardTail(s, s.Seq()+1, gone.Seq(), noon()); err != nil {
		t.Fatal(err)
	}
	appended(said(t, appended(s), "last of the tail"))
}

// tellLarge saves a small change beside a state too large to be written at
// every save.
func tellLarge(t *testing.T, st *sqlite.Store) {
	t.Helper()
	s := heavy(t, st, 2)
	for i := range 3 {
		s = save(t, st, said(t, s, fmt.Sprint(i)))
	}
}

// tellMemories remembers something twice, and forgets something.
func tellMemories(t *testing.T, st *sqlite.Store) {
	t.Helper()
	for _, m := range []store.Memo{
		{Key: "likes", Value: json.RawMessage(`"coffee"`), SessionID: "long", CallID: "c1", At: noon()},
		{Key: "likes", Value: json.RawMessage(`"green tea"`), At: noon().Add(time.Minute)},
		{Key: "gone", Value: json.RawMessage(`"tea"`), At: noon()},
	} {
		if _, err := st.Remember(t.Context(), rememberer(), m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.Forget(t.Context(), rememberer(), "gone", nil); err != nil {
		t.Fatal(err)
	}
}

func rememberer() store.Owner {
	return store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: "u"}
}

// remembers holds what tellMemories has written against what is there, in a
// database of a time that had memories.
func remembers(t *testing.T, st *sqlite.Store) {
	t.Helper()
	for version, want := range []string{`"green tea"`, `"coffee"`, `"green tea"`} {
		e, found, err := st.Entry(t.Context(), rememberer(), "likes", int64(version))
		if err != nil || !found || string(e.Value) != want || !e.CreatedAt.Equal(noon()) {
			t.Errorf("likes at %d: %+v, %t, %v; want %s", version, e, found, err, want)
		}
	}
	if e, found, err := st.Entry(t.Context(), rememberer(), "gone", 0); found || err != nil {
		t.Errorf("what was forgotten is %+v, %v", e, err)
	}
	again := store.Memo{Key: "likes", Value: json.RawMessage(`"no"`), SessionID: "long", CallID: "c1", At: noon()}
	if e, err := st.Remember(t.Context(), rememberer(), again); err != nil || e.Version != 1 {
		t.Errorf("a call made again wrote %+v, %v", e, err)
	}
	found, err := st.Search(t.Context(), session.DefaultTenant, store.Search{Words: []string{"tea"}, User: "u"})
	if err != nil || len(found) != 1 || found[0].Key != "likes" {
		t.Errorf("found %+v, %v", found, err)
	}
}

// tellOther uses an id of the first tenant in another.
func tellOther(t *testing.T, st *sqlite.Store) {
	t.Helper()
	born := session.Identity{ID: "long", AgentID: "agent-other", Tenant: "other", UserID: "u", Name: "named", Kind: session.KindTask}
	s, err := session.New(born, session.Definition{Name: "other", Model: "test/model"}, session.Seed{}, noon())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Create(t.Context(), s, store.Commit{ID: "other", At: noon()}); err != nil {
		t.Fatal(err)
	}
	save(t, st, said(t, s, "hello from another tenant"))
}

func with(t testing.TB, s session.Session, changes ...session.Change) session.Session {
	t.Helper()
	s, err := s.With(noon(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readingOf reads everything there is, as JSON. The values of the large state
// are cut short.
func readingOf(t *testing.T, st *sqlite.Store) []byte {
	t.Helper()
	var all []storetest.Reading
	for _, tenant := range []string{session.DefaultTenant, "other"} {
		page, err := st.List(t.Context(), tenant, store.Query{Order: store.IDAsc, IncludeDeleted: true})
		if err != nil || len(page.Corrupt) > 0 {
			t.Fatal(page.Corrupt, err)
		}
		for _, i := range page.Items {
			all = append(all, storetest.Read(t, st, store.Ref{Tenant: tenant, ID: i.ID}, "sealed", "open", "forgotten"))
		}
	}
	raw, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(raw, bytes.Repeat([]byte("x"), 60<<10), []byte("60 KiB"))
}

// wantSameReading compares line by line, to name the first that differs.
func wantSameReading(t *testing.T, what string, have, want []byte) {
	t.Helper()
	h, w := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(h), len(w)) {
		var a, b []byte
		if i < len(h) {
			a = h[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: line %d reads %s, want %s", what, i+1, a, b)
			return
		}
	}
}

// unpacked is a copy of a database of the corpus.
func unpacked(t *testing.T, packed string) string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(read(t, packed)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sessions.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeNewestCorpus writes the database and its reading for the schema that
// this program makes. Those of earlier ones cannot be made again.
func writeNewestCorpus(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{Now: noon})
	tell(t, st)
	healthy(t, st)
	reading := readingOf(t, st)
	schema, err := st.Count(t.Context(), "PRAGMA user_version")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil { // which moves the write-ahead log into the file
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(read(t, path)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(corpus, fmt.Sprintf("schema%d", schema))
	for file, data := range map[string][]byte{name + ".db.gz": packed.Bytes(), name + ".json": reading} {
		if err := os.MkdirAll(corpus, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
