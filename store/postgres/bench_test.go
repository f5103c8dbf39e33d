package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// longSession is a stored session with so many messages, the last ten of them
// in its window.
func longSession(b *testing.B, messages int) (*postgres.Store, session.Session) {
	b.Helper()
	st := open(b, pgtest.Schema(b), postgres.Config{})
	s := fresh(b, "long")
	for i := range messages {
		s = said(b, s, fmt.Sprintf("message %d of ordinary length, as people write them", i))
	}
	s, err := s.With(noon(), session.WindowMoved{Strategy: session.PruneSliding, To: s.Message(max(0, messages-10)).Seq})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := st.Create(b.Context(), s, store.Commit{ID: "create", At: noon()}); err != nil {
		b.Fatal(err)
	}
	return st, load(b, st, "long")
}

// How long news take after a write through another node, which
// pauses between its writes. Medians and the slowest hundredth.
func BenchmarkSubscribe_ofOthers(b *testing.B) {
	url := pgtest.Schema(b)
	here, there := open(b, url, postgres.Config{Poll: time.Hour}), open(b, url, postgres.Config{})
	s, err := there.Create(b.Context(), fresh(b, "s"), store.Commit{ID: "create", At: noon()})
	if err != nil {
		b.Fatal(err)
	}
	news, stop := here.Subscribe(store.RefOf(s))
	defer stop()
	settle(news)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		if s, err = there.Save(b.Context(), said(b, s, fmt.Sprint("message ", i)), store.Commit{ID: "c"}); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		<-news
		took = append(took, time.Since(began))
		settle(news)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
}

func benchHistories(b *testing.B, run func(b *testing.B, st *postgres.Store, s session.Session)) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			st, s := longSession(b, n)
			b.ReportAllocs()
			run(b, st, s)
		})
	}
}

func benchSave(b *testing.B, change func(i int) session.Change) {
	benchHistories(b, func(b *testing.B, st *postgres.Store, s session.Session) {
		for i := 0; b.Loop(); i++ {
			next, err := s.With(noon(), change(i))
			if err != nil {
				b.Fatal(err)
			}
			if s, err = st.Save(b.Context(), next, store.Commit{ID: "c"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSave_metadata(b *testing.B) {
	benchSave(b, func(i int) session.Change {
		return session.MetadataWritten{Key: "key", Value: json.RawMessage(fmt.Sprint(i))}
	})
}

func BenchmarkSave_message(b *testing.B) {
	benchSave(b, func(i int) session.Change {
		return session.MessageAdded{Message: session.Message{ID: fmt.Sprint("new-", i), Role: session.RoleUser, Content: session.Text("a message of ordinary length")}}
	})
}

// BenchmarkSave_toFloor compares a save of a kilobyte with the least durable
// work: one row moved on where its version matches, and one row added. The two
// are done in turns, and their medians divided.
func BenchmarkSave_toFloor(b *testing.B) {
	url := pgtest.Schema(b)
	st, conn := open(b, url, postgres.Config{}), pgtest.Connect(b, url)
	for _, sql := range []string{
		`CREATE TABLE head (id int PRIMARY KEY, version bigint NOT NULL) WITH (fillfactor = 70)`,
		`CREATE TABLE log (id int, seq bigint, body bytea NOT NULL, PRIMARY KEY (id, seq))`,
		`INSERT INTO head VALUES (1, 0)`,
	} {
		if _, err := conn.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	body, version, s := strings.Repeat("0123456789abcdef", 64), int64(0), create(b, st, "a")
	floor := func() {
		tag, err := conn.Exec(b.Context(), `WITH h AS (UPDATE head SET version = version + 1 WHERE id = 1 AND version = $1 RETURNING version)
			INSERT INTO log SELECT 1, version, $2 FROM h`, version, []byte(body))
		if err != nil || tag.RowsAffected() != 1 {
			b.Fatal(tag, err)
		}
		version++
	}
	one := func() {
		next, err := s.With(time.Now(), session.MessageAdded{Message: session.Message{ID: fmt.Sprint(version), Role: session.RoleUser, Content: session.Text(body)}})
		if err == nil {
			s, err = st.Save(b.Context(), next, store.Commit{ID: "c", At: time.Now()})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	compare(b, one, floor)
}

// BenchmarkSave_besideMuchState compares saves of a session that has a
// mebibyte of other state with those of one that has none.
func BenchmarkSave_besideMuchState(b *testing.B) {
	st := open(b, pgtest.Schema(b), postgres.Config{})
	saver := func(id string, values int) func() {
		s := fresh(b, id)
		for i := range values {
			var err error
			if s, err = s.WithMetadata(fmt.Sprint("part-", i), fmt.Appendf(nil, "%q", strings.Repeat("x", 60<<10)), noon()); err != nil {
				b.Fatal(err)
			}
		}
		s, err := st.Create(b.Context(), s, store.Commit{ID: "create", At: noon()})
		if err != nil {
			b.Fatal(err)
		}
		return func() {
			next, err := s.With(time.Now(), session.MetadataWritten{Key: "k", Value: json.RawMessage(`"v"`)})
			if err == nil {
				s, err = st.Save(b.Context(), next, store.Commit{ID: "c", At: time.Now()})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	compare(b, saver("heavy", 18), saver("light", 0))
}

// compare does two works in turns and reports the ratio of their medians.
func compare(b *testing.B, work, with func()) {
	b.Helper()
	var took [2][]time.Duration
	for b.Loop() {
		for i, do := range []func(){work, with} {
			began := time.Now()
			do()
			took[i] = append(took[i], time.Since(began))
		}
	}
	for _, t := range took {
		slices.Sort(t)
	}
	b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[1][len(took[1])/2]), "ratio")
}

func BenchmarkLoad_window(b *testing.B) {
	benchHistories(b, func(b *testing.B, st *postgres.Store, _ session.Session) {
		for b.Loop() {
			if _, err := st.Load(b.Context(), ref("long"), false); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkFork(b *testing.B) {
	benchHistories(b, func(b *testing.B, st *postgres.Store, s session.Session) {
		for i := 0; b.Loop(); i++ {
			f, err := s.Fork(fmt.Sprintf("fork-%d", i), fmt.Sprintf("agent-%d", i), noon())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := st.Fork(b.Context(), f, store.Commit{ID: "fork"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkList(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			st := filled(b, n)
			b.ReportAllocs()
			for b.Loop() {
				page, err := st.List(b.Context(), session.DefaultTenant, store.Query{})
				if err != nil || len(page.Items) != 50 {
					b.Fatal(len(page.Items), err)
				}
			}
		})
	}
}

// BenchmarkList_all lists a thousand sessions on one page.
func BenchmarkList_all(b *testing.B) {
	st := filled(b, 1_000)
	b.ReportAllocs()
	for b.Loop() {
		page, err := st.List(b.Context(), session.DefaultTenant, store.Query{Limit: 1_000})
		if err != nil || len(page.Items) != 1_000 {
			b.Fatal(len(page.Items), err)
		}
	}
}

// BenchmarkList_metadata finds one session among many by its metadata; each of
// the others has metadata of its own.
func BenchmarkList_metadata(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			st := filled(b, n, "UPDATE listing SET tagged = true",
				"INSERT INTO tags (tenant, tag, sid) SELECT tenant, sid, sid FROM sessions ON CONFLICT DO NOTHING", "ANALYZE listing", "ANALYZE tags")
			s, err := fresh(b, "wanted").With(noon(), session.MetadataWritten{Key: "customer", Value: json.RawMessage(`"ann"`)})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := st.Create(b.Context(), s, store.Commit{ID: "c", At: noon()}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				page, err := st.List(b.Context(), session.DefaultTenant, store.Query{Metadata: map[string]string{"customer": "ann"}})
				if err != nil || len(page.Items) != 1 {
					b.Fatal(len(page.Items), err)
				}
			}
		})
	}
}

// filled is a store with so many sessions, changed by statements.
func filled(b *testing.B, n int, statements ...string) *postgres.Store {
	b.Helper()
	url := pgtest.Schema(b)
	st, conn := open(b, url, postgres.Config{}), pgtest.Connect(b, url)
	create(b, st, "first")
	multiply(b, conn, n)
	for _, statement := range statements {
		if _, err := conn.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	return st
}

// multiply makes so many copies of the first session's row.
func multiply(b *testing.B, conn *pgx.Conn, n int) {
	b.Helper()
	var r store.Ref
	var version, seq int64
	var messages *int64
	var at time.Time
	if err := conn.QueryRow(b.Context(), `SELECT tenant, version, seq, messages, updated_at FROM sessions`).Scan(&r.Tenant, &version, &seq, &messages, &at); err != nil {
		b.Fatal(err)
	}
	sums := make([]int64, n)
	for i := range sums {
		r.ID = fmt.Sprint("copy-", i+1)
		sums[i] = postgres.RowSum(r, version, seq, messages, at.Add(time.Duration(i+1)*time.Second))
	}
	_, err := conn.Exec(b.Context(), `WITH s AS (INSERT INTO sessions (tenant, id, agent_id, version, seq, last_seq, last_sum, row_sum, write_id, format, header, header_sum,
			messages, pending, shown_from, shown_to, live, running, at_work, updated_at, snap_version, snapshot_bytes)
		SELECT tenant, 'copy-' || i, agent_id, version, seq, last_seq, last_sum, sum, write_id, format, header, header_sum, messages, pending, shown_from, shown_to, live,
			running, at_work, updated_at + i * interval '1 second', snap_version, snapshot_bytes
		FROM sessions, unnest($1::bigint[]) WITH ORDINALITY AS copies (sum, i) RETURNING sid, updated_at)
		INSERT INTO listing SELECT s.sid, l.tenant, floor(extract(epoch FROM s.updated_at) * 1000000)::bigint >> 18, l.created_at, l.expires_at,
			l.kind, l.status, l.origin, l.name, l.user_id, l.parent_id, l.agent_name FROM s, listing l`, sums)
	if err != nil {
		b.Fatal(err)
	}
}

// Picking the next sessions to work on costs the same among a hundred that wait
// as among a hundred thousand.
func BenchmarkWaiting(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			st := filled(b, n, "UPDATE sessions SET tenant = 'tenant-' || (sid % 20), due = updated_at - interval '30 years'", "ANALYZE sessions", "ANALYZE listing")
			for b.Loop() {
				if found, err := st.Waiting(b.Context(), "tenant-7", 32); err != nil || len(found) != 32 {
					b.Fatal(len(found), err)
				}
			}
		})
	}
}
