package sqlite_test

import (
	"encoding/json"
	"fmt"
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

// long is a stored session with so many messages of about a kilobyte, the
// last fifty of them in its window.
func long(b *testing.B, st *sqlite.Store, messages int) session.Session {
	b.Helper()
	s := fresh(b, "long")
	var err error
	for i := range messages {
		if s, err = s.WithMessage(message(i), noon()); err != nil {
			b.Fatal(err)
		}
	}
	if s, err = s.With(noon(), session.WindowMoved{Strategy: session.PruneSliding, To: s.Message(max(0, messages-50)).Seq, Keep: []int64{}}); err != nil {
		b.Fatal(err)
	}
	if _, err := st.Create(b.Context(), s, store.Commit{ID: "create", At: noon()}); err != nil {
		b.Fatal(err)
	}
	return load(b, st, "long")
}

func message(i int) session.Message {
	return session.Message{ID: fmt.Sprintf("m%d", i), Role: session.RoleUser, Content: session.Text(strings.Repeat("words ", 160))}
}

func benchStore(b *testing.B) *sqlite.Store {
	return open(b, filepath.Join(b.TempDir(), "sessions.db"), sqlite.Config{})
}

func atHistories(b *testing.B, run func(b *testing.B, st *sqlite.Store, s session.Session)) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			st := benchStore(b)
			s := long(b, st, n)
			b.ReportAllocs()
			b.ResetTimer()
			run(b, st, s)
		})
	}
}

func benchSaves(b *testing.B, st *sqlite.Store, s session.Session, change func(i int) session.Change) {
	for i := 0; b.Loop(); i++ {
		next, err := s.With(noon(), change(i))
		if err != nil {
			b.Fatal(err)
		}
		s = save(b, st, next)
	}
}

func metadata(i int) session.Change {
	return session.MetadataWritten{Key: "key", Value: json.RawMessage(fmt.Sprint(i))}
}

func BenchmarkSave_metadata(b *testing.B) {
	atHistories(b, func(b *testing.B, st *sqlite.Store, s session.Session) { benchSaves(b, st, s, metadata) })
}

func BenchmarkSave_message(b *testing.B) {
	atHistories(b, func(b *testing.B, st *sqlite.Store, s session.Session) {
		benchSaves(b, st, s, func(i int) session.Change { return session.MessageAdded{Message: message(1_000_000 + i)} })
	})
}

func BenchmarkAppend(b *testing.B) {
	atHistories(b, func(b *testing.B, st *sqlite.Store, s session.Session) {
		for i := 0; b.Loop(); i++ {
			next, err := s.With(noon(), metadata(i))
			if err != nil {
				b.Fatal(err)
			}
			if s, err = st.Append(b.Context(), next, store.Append{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLoad_window(b *testing.B) {
	atHistories(b, func(b *testing.B, st *sqlite.Store, _ session.Session) {
		for b.Loop() {
			load(b, st, "long")
		}
	})
}

func BenchmarkLoad_whole(b *testing.B) {
	st := benchStore(b)
	long(b, st, 2_000)
	b.ResetTimer()
	for b.Loop() {
		if _, err := st.LoadWhole(b.Context(), ref("long"), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFork(b *testing.B) {
	atHistories(b, func(b *testing.B, st *sqlite.Store, s session.Session) {
		for i := 0; b.Loop(); i++ {
			fork(b, st, s, fmt.Sprintf("fork-%d", i))
		}
	})
}

func BenchmarkCreate(b *testing.B) {
	st := benchStore(b)
	for i := 0; b.Loop(); i++ {
		create(b, st, fmt.Sprintf("s%d", i))
	}
}

// BenchmarkList_all lists a thousand sessions of a user on one page.
func BenchmarkList_all(b *testing.B) {
	st := benchStore(b)
	for i := range 1_000 {
		s := storetest.NewSession(b, session.Identity{ID: fmt.Sprintf("s%d", i), UserID: "ann"})
		if _, err := st.Create(b.Context(), s, store.Commit{ID: "c", At: noon()}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		page, err := st.List(b.Context(), session.DefaultTenant, store.Query{UserID: "ann", Limit: 1_000})
		if err != nil || len(page.Items) != 1_000 {
			b.Fatal(len(page.Items), err)
		}
	}
}

// BenchmarkList_metadata finds one session among many by its metadata.
func BenchmarkList_metadata(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			st := benchStore(b)
			fill(b, st, n)
			rewrite(b, st, "UPDATE sessions SET tagged = 1")
			rewrite(b, st, "INSERT INTO tags (tenant, tag, log) SELECT tenant, log, log FROM sessions")
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

// Adding up what was spent costs what was spent in that time, not what was said.
// How long news take after a write through another store, which to
// SQLite is another process. Medians and the slowest hundredth.
func BenchmarkSubscribe_ofOthers(b *testing.B) {
	path := filepath.Join(b.TempDir(), "sessions.db")
	here, there := open(b, path, sqlite.Config{}), open(b, path, sqlite.Config{})
	s := long(b, there, 10)
	news, stop := here.Subscribe(store.RefOf(s))
	defer stop()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		next, err := s.With(noon(), session.NameChanged{Name: fmt.Sprint("name ", i)})
		if err != nil {
			b.Fatal(err)
		}
		if s, err = there.Save(b.Context(), next, store.Commit{ID: fmt.Sprint("c", i), At: noon()}); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		<-news
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
}

func BenchmarkSpending(b *testing.B) {
	st := benchStore(b)
	for i := range 1000 {
		changes := []session.Change{session.ExecutionStarted{ExecutionID: "e"}}
		for n := range 10 {
			changes = append(changes, session.MessageAdded{Message: message(n)},
				session.InferenceAnswered{StepID: fmt.Sprint(n), Model: "m", Usage: session.Usage{Input: 1000, Output: 100}, Cost: 12})
		}
		s, err := fresh(b, fmt.Sprint("s", i)).With(noon(), changes...)
		if err == nil {
			_, err = st.Create(b.Context(), s, store.Commit{ID: s.ID(), At: noon()})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if got, err := st.Spending(b.Context(), session.DefaultTenant, store.SpendingQuery{}); err != nil || len(got.Groups) != 1 || got.Groups[0].Answers != 10_000 {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/10_000, "µs/answer")
}

// Picking the next sessions to work on costs the same among a hundred that wait
// as among a hundred thousand.
func BenchmarkWaiting(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			st := benchStore(b)
			fill(b, st, n)
			rewrite(b, st, "UPDATE sessions SET tenant = 'tenant-' || (log % 20), due = updated_at - 1000000000000000")
			for b.Loop() {
				if found, err := st.Waiting(b.Context(), "tenant-7", 32); err != nil || len(found) != 32 {
					b.Fatal(len(found), err)
				}
			}
		})
	}
}
