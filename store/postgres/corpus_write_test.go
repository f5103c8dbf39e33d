package postgres_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// writeNewestCorpus writes the dump of the schema that this program makes, and
// its reading. Those of earlier schemas cannot be made again.
func writeNewestCorpus(t *testing.T) {
	t.Helper()
	url := pgtest.Database(t, "")
	st := openAtNoon(t, url, postgres.Config{})
	fill(t, st)
	var schema int
	if err := pgtest.Connect(t, url).QueryRow(t.Context(), `SELECT max(version) FROM holdfast_schema`).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	dump, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", "--no-privileges", "--dbname", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	for line := range bytes.Lines(dump) {
		if bytes.HasPrefix(line, []byte(`\`)) { // for psql
			continue
		}
		if _, err := zip.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(corpus, fmt.Sprintf("schema%d.sql.gz", schema)), packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(corpus, fmt.Sprintf("schema%d.json", schema)), readingOf(t, st), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fill puts one of everything into a store.
func fill(t *testing.T, st *postgres.Store) {
	t.Helper()
	long := create(t, st, "long")
	for i := range 40 { // more than lie between two snapshots
		long = said(t, long, fmt.Sprintf("message %d", i))
		if i%4 == 3 {
			long = with(t, long, session.WindowMoved{Strategy: session.PruneSliding, To: long.Message(long.Len() - 2).Seq, Keep: []int64{}})
		}
		long = commit(t, st, long)
	}
	parent := save(t, st, create(t, st, "parent"), "shared by three")
	child := save(t, st, forked(t, st, parent, "child"), "shared by two")
	save(t, st, forked(t, st, child, "grandchild"), "own")
	save(t, st, parent, "not shared")
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
	rewound := commit(t, st, with(t, said(t, create(t, st, "rewound"), "stays"), session.MetadataWritten{Key: "k", Value: json.RawMessage(`"v"`)}))
	later := commit(t, st, with(t, said(t, rewound, "taken back"), session.MetadataRemoved{Key: "k"}))
	back, err := later.Rewound(rewound, noon())
	if err != nil {
		t.Fatal(err)
	}
	save(t, st, commit(t, st, back), "after it")
	cleared, err := save(t, st, create(t, st, "cleared"), "gone from sight").Cleared(noon())
	if err != nil {
		t.Fatal(err)
	}
	save(t, st, commit(t, st, cleared), "fresh start")
	commit(t, st, with(t, create(t, st, "deleted"), session.StatusChanged{Status: session.Deleted}))
	commit(t, st, create(t, st, "unchanged")) // a version without a change
	fillOpen(t, st)
	fillTask(t, st)
}

// fillOpen leaves an open tail under a lease, with an inbox and keys.
func fillOpen(t *testing.T, st *postgres.Store) {
	t.Helper()
	s := create(t, st, "open")
	for _, id := range []string{"sealed", "taken", "unread", "given-back"} {
		item := store.Item{ID: id, Kind: store.ItemFollowUp, Payload: session.Values{"text": json.RawMessage(`"hello"`)}, At: noon()}
		if err := st.Post(t.Context(), ref("open"), item); err != nil {
			t.Fatal(err)
		}
	}
	taking := func(s session.Session, item string) session.Session {
		return with(t, s, session.InboxTaken{ItemID: item, ItemKind: "follow_up"})
	}
	s, err := st.Save(t.Context(), taking(said(t, s, "sealed"), "sealed"),
		store.Commit{ID: "keyed", At: noon(), Actor: "someone", Keys: []store.Key{{Name: "sealed", Fingerprint: "f1"}}})
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
	s = appended(taking(said(t, s, "in the tail"), "taken"), store.Key{Name: "open", Fingerprint: "f2"})
	gone := appended(taking(said(t, s, "discarded"), "given-back"), store.Key{Name: "forgotten"})
	if s, err = session.DiscardTail(s, s.Seq()+1, gone.Seq(), noon()); err != nil {
		t.Fatal(err)
	}
	appended(said(t, appended(s), "last of the tail"))
}

// fillTask keeps a task under an id of the first tenant in another one, with a
// row that only its open tail has.
func fillTask(t *testing.T, st *postgres.Store) {
	t.Helper()
	born := session.Identity{ID: "long", AgentID: "agent-other", Tenant: "other", UserID: "u", Name: "named", Kind: session.KindTask}
	s, err := session.New(born, session.Definition{Name: "other", Model: "test/model"}, session.Seed{}, noon())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Create(t.Context(), with(t, s, session.TaskRowChanged{Task: session.TaskRow{Title: "t", Status: "planned"}}), store.Commit{ID: "other", At: noon()}); err != nil {
		t.Fatal(err)
	}
	s = save(t, st, s, "hello from another tenant")
	if _, err = st.Append(t.Context(), with(t, s, session.TaskRowChanged{Task: session.TaskRow{Title: "t", Status: "running"}}), store.Append{}); err != nil {
		t.Fatal(err)
	}
}

func with(t testing.TB, s session.Session, changes ...session.Change) session.Session {
	t.Helper()
	s, err := s.With(noon(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commit saves a session as it is.
func commit(t testing.TB, st store.Store, s session.Session) session.Session {
	t.Helper()
	s, err := st.Save(t.Context(), s, store.Commit{ID: fmt.Sprint("commit ", s.Version()), Action: "test", At: noon()})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return s
}

func forked(t testing.TB, st *postgres.Store, s session.Session, id string) session.Session {
	t.Helper()
	f, err := s.Fork(id, "agent-"+id, noon())
	if err != nil {
		t.Fatal(err)
	}
	if f, err = st.Fork(t.Context(), f, store.Commit{ID: "fork " + id, Action: "fork", At: noon()}); err != nil {
		t.Fatalf("fork: %v", err)
	}
	return f
}
