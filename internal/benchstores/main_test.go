package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

func TestParse_refusesWhatCannotBe(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown store":     {"-stores", "sqlite,oracle"},
		"no store":             {"-stores", ""},
		"an argument":          {"sqlite"},
		"an unknown flag":      {"-slow"},
		"a quick run in docs":  {"-write", "-quick"},
		"half a table in docs": {"-write", "-stores", "sqlite"},
	} {
		var usage *benchmark.UsageError
		if _, err := parse(args, io.Discard); !errors.As(err, &usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParse_measuresEachStoreOnce(t *testing.T) {
	f, err := parse([]string{"-stores", "postgres,sqlite,postgres"}, io.Discard)
	if err != nil || !slices.Equal(f.Stores, []string{namePostgres, nameSQLite}) {
		t.Errorf("%q, %v", f.Stores, err)
	}
	if f, err = parse(nil, io.Discard); err != nil || len(f.Stores) != 2 {
		t.Errorf("by default %q, %v", f.Stores, err)
	}
}

// Docs that cannot be written to are noticed before minutes are spent.
func TestRun_looksAtTheDocsFirst(t *testing.T) {
	var progress bytes.Buffer
	if err := run(t.Context(), []string{"-write", "-docs", t.TempDir()}, io.Discard, &progress); err == nil {
		t.Error("it wrote to docs that are not there")
	}
	if progress.Len() > 0 {
		t.Errorf("it has measured: %s", progress.String())
	}
}

// tiny is a run of everything in a few seconds: what it measures means nothing.
func tiny() scale {
	return scale{
		saves: 20, reads: 10, heavy: 2, slice: 5 * time.Millisecond, slices: 1,
		long: 200, last: 10, whole: 100, few: 60, sessions: 100, kept: 50, turns: 2,
	}
}

func TestSQLite_everythingIsMeasured(t *testing.T) {
	t.Parallel()
	everything(t, sqliteEngine(t.TempDir()), "rate.slow")
}

func TestPostgreSQL_everythingIsMeasured(t *testing.T) {
	t.Parallel()
	e, stop, err := postgresEngine(t.Context(), "", "")
	if err != nil {
		t.Skipf("no PostgreSQL to measure: %v", err)
	}
	defer stop()
	everything(t, e, "rate.floor")
}

func everything(t *testing.T, e engine, own string) {
	t.Helper()
	var progress bytes.Buffer
	results, err := e.measure(t.Context(), tiny(), &progress)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range results {
		if r.Key != "search" { // only of stores that can
			keys = append(keys, r.Key)
		}
		if math.IsNaN(r.Measured) || math.IsInf(r.Measured, 0) || r.Measured <= 0 && !r.Count || r.N < 1 || r.Name == "" {
			t.Errorf("%+v is no result", r)
		}
	}
	want := []string{
		"save.history.0", "save.history.1", "save.history.2", "save.growth", "load.at.early", "load.at.middle", "load.at.late", "fork",
		"save.state.metadata", "save.state.variables", "save.state.prompt", "rate.8", "rate.64", own, "load.window", "load.whole", "list", "disk", "disk.words",
		"commits.action", "commits.turn.1", "commits.turn.3", "commits.turn.10", "writers.one", "writers.own",
	}
	if !slices.Equal(keys, want) {
		t.Errorf("measured %q\nwant %q", keys, want)
	}
	s := StoreResults{Store: e.name, Results: results}
	for key, want := range map[string]float64{"commits.action": 1, "writers.one": onOne, "writers.own": 0} { // these are counted
		if r, _ := s.find(key); r.Measured != want {
			t.Errorf("%s is %v, want %v", key, r.Measured, want)
		}
	}
	// A turn of k steps writes each of them: a count below that has missed some.
	if r, _ := s.find("commits.turn.10"); r.Measured < 10 {
		t.Errorf("a turn of 10 steps made only %v commits", r.Measured)
	}
	if raw, err := json.Marshal(Report{Stores: []StoreResults{s}}); err != nil || !bytes.Contains(raw, []byte(`"key":"`+own+`"`)) {
		t.Errorf("as JSON: %s, %v", raw, err)
	}
	for _, c := range e.chapters {
		if !strings.Contains(progress.String(), c.name) {
			t.Errorf("progress does not tell of %q", c.name)
		}
	}
}

// The floor is only one if it flushes as the store does.
func TestSQLiteFloor_writesAsDurablyAsTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := newSQLiteFloor(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := f.append(t.Context(), 0, []byte("a row")); err != nil {
		t.Fatal(err)
	}
	var (
		mode            string
		flush, size, of int
	)
	page, err := pageSize(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for query, into := range map[string]any{
		"PRAGMA journal_mode": &mode, "PRAGMA synchronous": &flush, "PRAGMA page_size": &size, "SELECT count(*) FROM log": &of,
	} {
		if err := f.db.QueryRowContext(t.Context(), query).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	if mode != "wal" || flush != 2 || size != page || of != 1 {
		t.Errorf("journal mode %s, synchronous %d, pages of %d for %d, %d rows", mode, flush, size, page, of)
	}
}

func TestInOrder_countsUpToTheFirstThatIsMissing(t *testing.T) {
	for _, c := range []struct {
		expected, said string
		want           int
	}{
		{"a b c", "a b c", 3}, {"a b c", "a c", 1}, {"a b c", "a c b", 1}, {"a b", "a a b", 1}, {"a b", "x a b", 0}, {"", "", 0}, {"a", "", 0},
	} {
		if got := inOrder(strings.Fields(c.expected), strings.Fields(c.said)); got != c.want {
			t.Errorf("%q of %q: %d, want %d", c.said, c.expected, got, c.want)
		}
	}
}
