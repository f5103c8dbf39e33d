package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
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

// BenchmarkSave_largeState has a mebibyte of state that no save touches.
func BenchmarkSave_largeState(b *testing.B) {
	st := benchStore(b)
	s := heavy(b, st, 17)
	b.ResetTimer()
	benchSaves(b, st, s, func(i int) session.Change { return session.MessageAdded{Message: message(i)} })
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

// BenchmarkSave_concurrent saves to as many sessions as there are savers.
func BenchmarkSave_concurrent(b *testing.B) {
	for _, savers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("savers=%d", savers), func(b *testing.B) {
			st := benchStore(b)
			sessions := make(chan session.Session, savers)
			for i := range savers {
				sessions <- create(b, st, fmt.Sprintf("s%d", i))
			}
			b.SetParallelism(savers) // times the number of processors, and so enough
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					s := <-sessions
					next, err := s.With(noon(), metadata(i))
					if err == nil {
						s, err = st.Save(b.Context(), next, store.Commit{ID: "c"})
					}
					if err != nil {
						b.Error(err)
						return
					}
					sessions <- s
				}
			})
		})
	}
}

// BenchmarkRaw_oneRow is the least durable work the driver can do.
func BenchmarkRaw_oneRow(b *testing.B) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "raw.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(b.Context(), "CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)"); err != nil {
		b.Fatal(err)
	}
	insert, err := db.PrepareContext(b.Context(), "INSERT INTO t (data) VALUES (?)")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = insert.Close() }()
	data := []byte(strings.Repeat("words ", 180))
	for b.Loop() {
		if _, err := insert.ExecContext(b.Context(), data); err != nil {
			b.Fatal(err)
		}
	}
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
