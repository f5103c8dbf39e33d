package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

func TestParse_refusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-nothing", "more", "-stores MySQL", "-write -quick", "-write -stores SQLite", "-stores ,"} {
		var usage *benchmark.UsageError
		if _, err := parse(strings.Fields(args), io.Discard); !errors.As(err, &usage) {
			t.Errorf("%s: %v, want a UsageError", args, err)
		}
	}
}

// sample is a report in which the second contender cannot fork.
func sample() Report {
	of := func(took ...time.Duration) []Sample {
		var all []Sample
		for _, d := range took {
			all = append(all, Sample{Took: d, CPU: d / 2})
		}
		return all
	}
	return Report{
		Machine:    benchmark.Machine{Cores: 2, Go: "go1.26", Flush: 104 * time.Microsecond},
		Contenders: []Contender{{Name: "Holdfast"}, {Name: "Other", Version: "v2"}, {Name: "Third", Version: "v3"}},
		Rows: []Row{
			{Store: "SQLite", Key: "append", Name: "append <1 kB>", Samples: [][]Sample{
				of(9*time.Second, time.Millisecond, 2*time.Millisecond), of(20*time.Millisecond, 10*time.Millisecond, 30*time.Millisecond), nil,
			}},
			{Store: "SQLite", Key: "fork", Name: "fork", Samples: [][]Sample{of(time.Millisecond), nil, nil}},
			{Store: "PostgreSQL", Key: "turn", Name: "turn", Samples: [][]Sample{of(4 * time.Millisecond), of(time.Millisecond), of(8 * time.Millisecond)}},
		},
	}
}

func TestTables_haveTheMediansOfThoseWhoTookPart(t *testing.T) {
	t.Parallel()
	want := `| SQLite | Holdfast | Other |
|---|---:|---:|
| append <1 kB> | 2 ms (1 ms) | 20 ms (10 ms) |
| fork | 1 ms (0.5 ms) | – |

| PostgreSQL | Holdfast | Other | Third |
|---|---:|---:|---:|
| turn | 4 ms (2 ms) | 1 ms (0.5 ms) | 8 ms (4 ms) |
`
	if got := formatTables(sample()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	short := `| median time | Holdfast | Other | Third |
|---|---:|---:|---:|
| SQLite, append <1 kB> | 2 ms | 20 ms | – |
| PostgreSQL, turn | 4 ms | 1 ms | 8 ms |
`
	if got := formatShort(sample()); got != short {
		t.Errorf("got\n%s\nwant\n%s", got, short)
	}
}

func TestChart_comparesWithTheFirst(t *testing.T) {
	t.Parallel()
	chart := drawChart(sample())
	for _, want := range []string{"10 ×</text>", "0.3 ×</text>", "2 ×</text>", "append &lt;1 kB&gt;", "Third", "</svg>"} {
		if !strings.Contains(chart, want) {
			t.Errorf("no %q in\n%s", want, chart)
		}
	}
	if strings.Contains(chart, ">fork<") {
		t.Error("a row that only one contender has is drawn")
	}
}

func TestPublish_writesResultsThatAreReadAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	page := []byte("kept\n<!-- begin of what make bench-peers writes -->\nold\n<!-- end of what make bench-peers writes -->\n")
	for _, folder := range []string{"docs", "bench"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{performancePage, readmePage} {
		if err := os.WriteFile(filepath.Join(root, name), page, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	results := filepath.Join(root, "bench", "results.json")
	if err := publish(root, results, sample()); err != nil {
		t.Fatal(err)
	}
	again, err := readReport(results)
	if err != nil || formatSection(again) != formatSection(sample()) {
		t.Errorf("read again as\n%s\n%v", formatSection(again), err)
	}
	for name, want := range map[string]string{performancePage: "Other v2 and Third v3", readmePage: "| PostgreSQL, turn |", "docs/" + chartFile: "<svg"} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s has no %q: %v\n%s", name, want, err, got)
		}
	}
}

func TestPages_canBeWrittenTo(t *testing.T) {
	t.Parallel()
	for _, page := range []string{performancePage, readmePage} {
		if err := section.Check(filepath.Join("..", page)); err != nil {
			t.Error(err)
		}
	}
}

// Ours on SQLite; the others are measured by make bench-peers.
func TestMeasure_everyRowHasSamples(t *testing.T) {
	t.Parallel()
	found, err := measureStore(t.Context(), storeSQLite, []Contender{holdfastContender}, scale{rounds: 2, heavy: 1, messages: 60, sessions: 60}, inFolder(t), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(rows(scale{})) {
		t.Errorf("%d rows, not %d", len(found), len(rows(scale{})))
	}
	for _, r := range found {
		if took, _, ok := r.medians(0); !ok || took <= 0 {
			t.Errorf("%s took %v, %v", r.Name, took, ok)
		}
	}
}

func TestMeasure_refusesAContenderThatReadsLess(t *testing.T) {
	t.Parallel()
	open := func(ctx context.Context, p place) (system, error) {
		s, err := openHoldfast(ctx, p)
		return forgetful{s}, err
	}
	_, err := measureStore(t.Context(), storeSQLite, []Contender{{Name: "forgetful", open: open}}, scale{rounds: 1, heavy: 1, messages: 4, sessions: 60}, inFolder(t), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "forgetful: 3 messages, not 4") {
		t.Errorf("%v, want an error that names the contender and both counts", err)
	}
}

// forgetful loses a message.
type forgetful struct{ system }

func (f forgetful) load(ctx context.Context, id string) (int, error) {
	n, err := f.system.load(ctx, id)
	return n - 1, err
}

func inFolder(t *testing.T) func(context.Context, int) (place, error) {
	dir := t.TempDir()
	return func(context.Context, int) (place, error) { return place{file: filepath.Join(dir, "sessions.db")}, nil }
}
