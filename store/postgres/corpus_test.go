package postgres_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The corpus holds a dump of a database of every schema there was, each filled
// in the same way by the store of its time, and what is to be read from all.
const corpus = "testdata/corpus"

var writeCorpus = flag.Bool("corpus", false, "write the corpus of the newest schema anew (needs pg_dump)")

// TestCorpus_everySchemaReadsTheSame restores each dump, opens it, which
// migrates it, and reads everything through the store.
func TestCorpus_everySchemaReadsTheSame(t *testing.T) {
	t.Parallel()
	if *writeCorpus {
		writeNewestCorpus(t)
	}
	dumps, err := filepath.Glob(filepath.Join(corpus, "schema*.sql.gz"))
	if err != nil || len(dumps) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, dump := range dumps {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			t.Parallel()
			want := readingFor(t, dump)
			url := restored(t, dump)
			var last int
			told := postgres.Config{OnMigrate: func(done, total int) {
				if total == 0 || done < last || done > total {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last = done
			}}
			for _, c := range []postgres.Config{told, {}} { // migrated, and opened again
				wantSameReading(t, readingOf(t, openAtNoon(t, url, c)), want)
			}
			carriesOn(t, url)
		})
	}
}

// readingFor is what must be read from a dump: of its own where it has one, else
// that of the first dumps.
func readingFor(t *testing.T, dump string) []byte {
	t.Helper()
	want, err := os.ReadFile(strings.TrimSuffix(dump, ".sql.gz") + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		want, err = os.ReadFile(filepath.Join(corpus, "reading.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func openAtNoon(t *testing.T, url string, c postgres.Config) *postgres.Store {
	t.Helper()
	st, err := postgres.OpenAt(t.Context(), url, c, noon)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, st)
}

// restored is a fresh database with a dump in it.
func restored(t *testing.T, dump string) string {
	t.Helper()
	packed, err := os.Open(dump)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }() // it was only read
	zip, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	sql, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.Database(t, "")
	if _, err := pgtest.Connect(t, url).PgConn().Exec(t.Context(), string(sql)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return url
}

// carriesOn writes to what was migrated.
func carriesOn(t *testing.T, url string) {
	t.Helper()
	st := openAtNoon(t, url, postgres.Config{})
	long := save(t, st, load(t, st, "long"), "carries on")
	save(t, st, forked(t, st, long, "new-fork"), "carries on too")
	save(t, st, load(t, st, "grandchild"), "and so does an old fork")
	s := load(t, st, "open")
	l, _, err := st.Holding(t.Context(), ref("open"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Save(t.Context(), said(t, s, "sealed"), store.Commit{ID: "seals", At: noon(), Fence: l.Token, Release: true}); err != nil {
		t.Fatalf("seal the tail: %v", err)
	}
	if err := st.Delete(t.Context(), ref("child"), 0); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int64{"long": long.Version(), "open": s.Version(), "new-fork": 2, "grandchild": 3} {
		got, err := st.LoadWhole(t.Context(), ref(id), 0)
		if err != nil || got.Version() != want || got.Partial() {
			t.Errorf("%s: version %d whole %t, %v; want version %d", id, got.Version(), !got.Partial(), err, want)
		}
	}
}

// readingOf reads everything there is: a line of JSON for each session.
func readingOf(t *testing.T, st *postgres.Store) []byte {
	t.Helper()
	var lines bytes.Buffer
	for _, tenant := range []string{session.DefaultTenant, "other"} {
		page, err := st.List(t.Context(), tenant, store.Query{Order: store.IDAsc, IncludeDeleted: true})
		if err != nil || len(page.Corrupt) > 0 {
			t.Fatal(page.Corrupt, err)
		}
		for _, i := range page.Items {
			if err := json.NewEncoder(&lines).Encode(storetest.Read(t, st, store.Ref{Tenant: tenant, ID: i.ID}, "sealed", "open", "forgotten")); err != nil {
				t.Fatal(err)
			}
		}
	}
	return lines.Bytes()
}

// wantSameReading compares line by line and shows where the first two that
// differ begin to.
func wantSameReading(t *testing.T, have, want []byte) {
	t.Helper()
	h, w := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	if len(h) != len(w) {
		t.Fatalf("%d sessions, want %d", len(h)-1, len(w)-1)
	}
	for i := range h {
		if bytes.Equal(h[i], w[i]) {
			continue
		}
		at := 0
		for at < min(len(h[i]), len(w[i])) && h[i][at] == w[i][at] {
			at++
		}
		around := func(line []byte) []byte { return line[max(0, at-200):min(len(line), at+200)] }
		t.Fatalf("session %d reads\n%s\nwant\n%s", i, around(h[i]), around(w[i]))
	}
}
