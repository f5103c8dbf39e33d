package postgres_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

const maker = "test/maker"

func east(string) []float32 { return []float32{1, 0} }

// vectorsFor are vectors for what waits.
func vectorsFor(t testing.TB, st *postgres.Store, limit int, of func(text string) []float32) []store.Embedding {
	t.Helper()
	waiting, err := st.Unembedded(t.Context(), maker, limit)
	if err != nil {
		t.Fatalf("unembedded: %v", err)
	}
	var made []store.Embedding
	for _, u := range waiting {
		made = append(made, store.Embedding{Token: u.Token, Vector: of(u.Text)})
	}
	return made
}

func embedAll(t testing.TB, st *postgres.Store, of func(text string) []float32) {
	t.Helper()
	for {
		made := vectorsFor(t, st, 0, of)
		if len(made) == 0 {
			return
		}
		if err := st.Embedded(t.Context(), maker, made); err != nil {
			t.Fatalf("embedded: %v", err)
		}
	}
}

// number is what a query finds.
func number(t testing.TB, url, sql string, args ...any) (n int) {
	t.Helper()
	if err := pgtest.Connect(t, url).QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Marks keep logs that have nothing to embed from being read again and again.
func TestUnembedded_leavesNoLogBehind(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	const behind = `SELECT count(*) FROM sessions s LEFT JOIN embedded e ON e.log = s.sid WHERE s.last_seq > coalesce(e.upto, 0)`
	s := save(t, st, create(t, st, "s"), "one")
	fork(t, st, s, "fork")
	embedAll(t, st, east)
	if n := number(t, url, behind); n != 0 {
		t.Errorf("%d logs are behind when all is embedded", n)
	}
	s = commit(t, st, with(t, s, session.MetadataWritten{Key: "k", Value: []byte(`1`)}))
	if made := vectorsFor(t, st, 0, east); len(made) != 0 {
		t.Errorf("waiting: %v", made)
	}
	if n := number(t, url, behind); n != 0 {
		t.Errorf("%d logs are behind after a change without text", n)
	}
	save(t, st, save(t, st, s, "two"), "three")
	made := vectorsFor(t, st, 0, east)
	if err := st.Embedded(t.Context(), maker, made[1:]); err != nil || len(made) != 2 {
		t.Fatal(len(made), err)
	}
	if left := vectorsFor(t, st, 0, east); len(left) != 1 || left[0].Token != made[0].Token || number(t, url, behind) != 1 {
		t.Errorf("waiting: %v, with %d logs behind", left, number(t, url, behind))
	}
	embedAll(t, st, east)
	if n := number(t, url, behind); n != 0 {
		t.Errorf("%d logs are behind in the end", n)
	}
}

// More logs without any text than are looked at in one go must not hide the
// one that has some.
func TestUnembedded_looksBeyondManyLogs(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	for i := range 300 {
		create(t, st, fmt.Sprint("mute-", i))
	}
	save(t, st, create(t, st, "s"), "text")
	for _, limit := range []int{1, 0} {
		if made := vectorsFor(t, st, limit, east); len(made) != 1 {
			t.Errorf("with a limit of %d %d wait, want 1", limit, len(made))
		}
	}
	embedAll(t, st, east)
	if n := number(t, url, `SELECT count(*) FROM embedded`); n != 301 {
		t.Errorf("%d logs have a mark, want 301", n)
	}
}

func TestDelete_takesVectorsAndMarksAlong(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	parent := save(t, st, create(t, st, "parent"), "shared")
	save(t, st, fork(t, st, parent, "child"), "the child's")
	save(t, st, parent, "the parent's")
	embedAll(t, st, east)
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
	if n := number(t, url, `SELECT count(*) FROM message_vectors`); n != 2 {
		t.Errorf("%d vectors are left, want that of the child and the one it shares", n)
	}
	if problems := check(t, st); len(problems) > 0 {
		t.Errorf("the check found %q", problems)
	}
	if err := st.Delete(t.Context(), ref("child"), 0); err != nil {
		t.Fatal(err)
	}
	if left := rowsLeft(t, url); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Vectors that come while their session is being deleted wait for the end of
// it, and are dropped then.
func TestEmbedded_besideADeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	stop := sync.OnceFunc(func() { close(reached); <-goOn }) // a deletion that is tried again goes on
	deleting := open(t, url, postgres.Config{OnWrite: func(point string) {
		if point == "before delete commit" {
			stop()
		}
	}})
	name := strings.ReplaceAll(t.Name(), "/", " ")
	st := open(t, pgtest.With(t, url, "application_name", name), postgres.Config{})
	save(t, st, create(t, st, "s"), "text")
	made := vectorsFor(t, st, 0, east)
	deleted, embedded := make(chan error, 1), make(chan error, 1)
	go func() { deleted <- deleting.Delete(t.Context(), ref("s"), 0) }()
	<-reached // everything is removed, and nobody sees it yet
	go func() { embedded <- st.Embedded(t.Context(), maker, made) }()
	waits := func() bool {
		return number(t, url, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND cardinality(pg_blocking_pids(pid)) > 0`, name) > 0
	}
	for !waits() && len(embedded) == 0 {
	}
	close(goOn)
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if err := <-embedded; err != nil {
		t.Fatal(err)
	}
	if left := rowsLeft(t, url); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestCheck_namesWhatIsWrongWithVectors(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		sql, want string
		repaired  bool
	}{
		"a message passed over": {`DELETE FROM message_vectors WHERE seq = 5`, "messages without a vector", true},
		"a vector of nothing":   {`INSERT INTO message_vectors (log, seq, eid, at, trace) SELECT 999, 1, eid, now(), false FROM embedders`, "are of no message", false},
		"a mark of nothing":     {`INSERT INTO embedded (eid, log, upto) SELECT eid, 999, 1 FROM embedders`, "has the mark of an embedder", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := migrated.Copy(t)
			st := family(t, url)
			embedAll(t, st, east)
			if problems := check(t, st); len(problems) > 0 {
				t.Fatalf("before: %q", problems)
			}
			pgtest.Exec(t, url, c.sql)
			if problems := check(t, st); len(problems) != 1 || !strings.Contains(problems[0], c.want) {
				t.Errorf("found %q, want one that says %q", problems, c.want)
			}
			if repaired := repair(t, st); (len(repaired) == 1) != c.repaired {
				t.Errorf("repaired %q", repaired)
			}
			if problems := check(t, st); (len(problems) == 0) != c.repaired {
				t.Errorf("after the repair: %q", problems)
			}
			embedAll(t, st, east)
			if c.repaired && number(t, url, `SELECT count(*) FROM message_vectors WHERE seq = 5`) == 0 {
				t.Error("what was passed over was not embedded")
			}
		})
	}
}

func BenchmarkNearest(b *testing.B) {
	for _, size := range []struct{ sessions, messages int }{{10, 100}, {100, 1_000}} {
		b.Run(fmt.Sprint(size.sessions*size.messages), func(b *testing.B) {
			st := open(b, pgtest.Schema(b), postgres.Config{})
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
			direction := func(string) []float32 {
				v, sum := make([]float32, 512), 0.0
				for i := range v {
					v[i] = float32(random.NormFloat64())
					sum += float64(v[i]) * float64(v[i])
				}
				for i := range v {
					v[i] /= float32(math.Sqrt(sum))
				}
				return v
			}
			for i := range size.sessions {
				s, err := session.New(session.Identity{ID: fmt.Sprint("s", i), AgentID: fmt.Sprint("a", i), UserID: "ann"}, session.Definition{Name: "tester"}, session.Seed{}, noon())
				if err != nil {
					b.Fatal(err)
				}
				for j := range size.messages {
					s = said(b, s, fmt.Sprint("message ", j))
				}
				if _, err := st.Create(b.Context(), s, store.Commit{ID: "c"}); err != nil {
					b.Fatal(err)
				}
			}
			embedAll(b, st, direction)
			q := store.Near{Search: store.Search{User: "ann", Limit: 5}, Embedder: maker, Vector: direction("")}
			for b.Loop() {
				if found, err := st.Nearest(b.Context(), session.DefaultTenant, q); err != nil || len(found) != 5 {
					b.Fatal(len(found), err)
				}
			}
		})
	}
}
