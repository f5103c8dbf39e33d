package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// saver saves one message of a kilobyte after the other to a session.
func saver(b *testing.B, st *sqlite.Store, s session.Session) step { return saverOf(b, st, s, 1000) }

func saverOf(b *testing.B, st *sqlite.Store, s session.Session, size int) step {
	return func(i int) {
		next, err := s.WithMessage(sized(i, size), noon())
		if err == nil {
			s, err = st.Save(b.Context(), next, store.Commit{ID: fmt.Sprintf("commit-%08d", i), Action: "SendMessage", At: noon()})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// sized is a message of so many bytes.
func sized(i, size int) session.Message {
	return session.Message{ID: fmt.Sprintf("message-%08d", i), Role: session.RoleUser, Content: session.Text(strings.Repeat("words are ", size/10))}
}

// rawRow inserts a row of a kilobyte with the store's settings, which is the
// least durable work the driver can do.
func rawRow(b *testing.B, st *sqlite.Store) step {
	b.Helper()
	pragmas := ""
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
	for name, synchronous := range map[string]sqlite.Synchronous{"full": sqlite.Full, "normal": sqlite.Normal} {
		b.Run(name, func(b *testing.B) {
			st := open(b, filepath.Join(b.TempDir(), "sessions.db"), sqlite.Config{Synchronous: synchronous})
			compare(b, "raw save", rawRow(b, st), saver(b, st, create(b, st, "s")))
		})
	}
}

// BenchmarkSave_besideLargeState has a mebibyte of state that no save touches.
func BenchmarkSave_besideLargeState(b *testing.B) {
	small, large := benchStore(b), benchStore(b)
	compare(b, "small large", saver(b, small, create(b, small, "s")), saver(b, large, heavy(b, large, 17)))
}

func BenchmarkSave_besideLongHistory(b *testing.B) {
	short, old := benchStore(b), benchStore(b)
	compare(b, "short long", saver(b, short, create(b, short, "s")), saver(b, old, long(b, old, 10_000)))
}

func BenchmarkLoad_besideLongHistory(b *testing.B) {
	short, old := benchStore(b), benchStore(b)
	long(b, short, 100)
	long(b, old, 10_000)
	compare(b, "short long", func(int) { load(b, short, "long") }, func(int) { load(b, old, "long") })
}

// BenchmarkLoad_besideDecoding reads 2,000 messages from the store and from
// memory.
func BenchmarkLoad_besideDecoding(b *testing.B) {
	st := benchStore(b)
	long(b, st, 2_000)
	whole := func(int) {
		if _, err := st.LoadWhole(b.Context(), ref("long"), 0); err != nil {
			b.Fatal(err)
		}
	}
	s, err := st.LoadWhole(b.Context(), ref("long"), 0)
	if err != nil {
		b.Fatal(err)
	}
	document := []byte(encoded(b, s))
	decode := func(int) {
		if _, err := session.Decode(document); err != nil {
			b.Fatal(err)
		}
	}
	compare(b, "decode load", decode, whole)
}

func BenchmarkFork_besideCreating(b *testing.B) {
	st := benchStore(b)
	s := long(b, st, 10_000)
	compare(b, "create fork", func(i int) { create(b, st, fmt.Sprintf("s%d", i)) }, func(i int) { fork(b, st, s, fmt.Sprintf("f%d", i)) })
}

func BenchmarkList_besideManySessions(b *testing.B) {
	one, many := benchStore(b), benchStore(b)
	fill(b, one, 1_000)
	fill(b, many, 100_000)
	for what, q := range map[string]store.Query{
		"all": {}, "status": {Statuses: []session.Status{session.Suspended}}, "user": {UserID: "user-7"},
		"kind": {Kinds: []session.Kind{session.KindTask}}, "agent": {Agent: "tester"}, "created": {Order: store.CreatedDesc},
	} {
		b.Run(what, func(b *testing.B) {
			page := func(st *sqlite.Store) step {
				q.Limit = 10 // so many there are in both
				return func(int) {
					if page, err := st.List(b.Context(), session.DefaultTenant, q); err != nil || len(page.Corrupt) > 0 {
						b.Fatal(page.Corrupt, err)
					}
				}
			}
			compare(b, "1000 100000", page(one), page(many))
		})
	}
}

// BenchmarkSave_together says how many times as many saves a second 64 savers
// make as one, on the disk there is and on one that takes a millisecond more.
func BenchmarkSave_together(b *testing.B) {
	for what, config := range map[string]sqlite.Config{
		"disk": {},
		"slow": {OnWrite: func(point string) {
			if point == "before commit" {
				time.Sleep(time.Millisecond)
			}
		}},
	} {
		b.Run(what, func(b *testing.B) {
			rate := func(savers int) float64 {
				st := open(b, filepath.Join(b.TempDir(), "sessions.db"), config)
				var wg sync.WaitGroup
				steps := make([]step, savers)
				for k := range steps {
					steps[k] = saver(b, st, create(b, st, fmt.Sprintf("s%d", k)))
				}
				each := 640 / savers
				start := time.Now()
				for _, save := range steps {
					wg.Go(func() {
						for i := range each {
							save(i)
						}
					})
				}
				wg.Wait()
				return float64(savers*each) / time.Since(start).Seconds()
			}
			var alone, together []float64
			for b.Loop() {
				alone, together = append(alone, rate(1)), append(together, rate(64))
			}
			slices.Sort(alone)
			slices.Sort(together)
			b.ReportMetric(alone[len(alone)/2], "alone/s")
			b.ReportMetric(together[len(together)/2]/alone[len(alone)/2], "together-times")
		})
	}
}

// BenchmarkDisk is what 1,000 saves leave on the disk.
func BenchmarkDisk(b *testing.B) {
	for _, size := range []int{500, 1000} {
		b.Run(fmt.Sprintf("message=%d", size), func(b *testing.B) {
			var perByte float64
			for b.Loop() {
				perByte = bytesOnDisk(b, size) / float64(1000*size)
			}
			b.ReportMetric(perByte, "bytes/byte")
		})
	}
}

// bytesOnDisk is the size of a database of 1,000 messages of a size.
func bytesOnDisk(b *testing.B, size int) float64 {
	b.Helper()
	path := filepath.Join(b.TempDir(), "sessions.db")
	st, err := sqlite.Open(b.Context(), path, sqlite.Config{})
	if err != nil {
		b.Fatal(err)
	}
	save := saverOf(b, st, create(b, st, "s"), size)
	for i := range 1000 {
		save(i)
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size())
}
