package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// The benchmarks of this file say how many times as long one thing takes as
// another. They take turns, so that what disturbs the machine disturbs both,
// and compare medians: ns/op is that of a round and means nothing.

// step is one thing that is done again and again.
type step func(i int)

// compare reports the medians of all steps as multiples of the first.
func compare(b *testing.B, names string, steps ...step) {
	b.Helper()
	times := make([][]time.Duration, len(steps))
	for i := 0; b.Loop(); i++ {
		for k, do := range steps {
			start := time.Now()
			do(i)
			times[k] = append(times[k], time.Since(start))
		}
	}
	first := medianOf(times[0])
	b.ReportMetric(float64(first.Nanoseconds())/1e3, strings.Fields(names)[0]+"-µs")
	for k, name := range strings.Fields(names)[1:] {
		b.ReportMetric(float64(medianOf(times[k+1]))/float64(first), name+"-times")
	}
}

func medianOf(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// saver saves one message after the other to a session.
func saver(b *testing.B, st *sqlite.Store, s session.Session) step {
	return func(i int) {
		next, err := s.WithMessage(kilobyte(i), noon())
		if err == nil {
			s, err = st.Save(b.Context(), next, store.Commit{ID: fmt.Sprintf("commit-%08d", i), Action: "SendMessage", At: noon()})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// kilobyte is a message of a kilobyte.
func kilobyte(i int) session.Message {
	return session.Message{ID: fmt.Sprintf("message-%08d", i), Role: session.RoleUser, Content: session.Text(strings.Repeat("words are ", 100))}
}

// rawRow inserts a row of a kilobyte with the store's settings, which is the
// least durable work the driver can do.
func rawRow(b *testing.B) step {
	b.Helper()
	pragmas := ""
	st := benchStore(b)
	for _, name := range []string{"page_size", "journal_mode", "synchronous", "wal_autocheckpoint", "journal_size_limit"} {
		value, err := st.Setting(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		pragmas += "&_pragma=" + name + "(" + value + ")"
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "raw.db")+"?"+pragmas[1:])
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(b.Context(), "CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)"); err != nil {
		b.Fatal(err)
	}
	insert, err := db.PrepareContext(b.Context(), "INSERT INTO t (data) VALUES (?)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = insert.Close() })
	data := []byte(strings.Repeat("words are ", 100))
	return func(int) {
		if _, err := insert.ExecContext(context.Background(), data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSave_besideARawRow(b *testing.B) {
	st := benchStore(b)
	compare(b, "raw save", rawRow(b), saver(b, st, create(b, st, "s")))
}

// BenchmarkSave_besideLargeState has a mebibyte of state that no save touches.
func BenchmarkSave_besideLargeState(b *testing.B) {
	small, large := benchStore(b), benchStore(b)
	compare(b, "small large", saver(b, small, create(b, small, "s")), saver(b, large, heavy(b, large, 17)))
}
