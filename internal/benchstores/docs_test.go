package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

const (
	beginMark = "<!-- begin of what make bench-stores writes -->"
	endMark   = "<!-- end of what make bench-stores writes -->"
)

// sample is a report with every kind of result.
func sample() Report {
	return Report{
		Machine: benchmark.Machine{Cores: 2, Go: "go1.26", Flush: 104 * time.Microsecond},
		Stores: []StoreResults{
			{Store: "SQLite", Results: []Result{
				{Key: historyKey(0), Name: "save after 10", Measured: 1.31, Target: atMost(1.5), About: "0.2 ms to 0.15 ms", N: 2000},
				{Key: historyKey(1), Name: "save after 1,000", Measured: 1.3, Target: atMost(1.5), N: 2000},
				{Key: historyKey(2), Name: "save after 10,000", Measured: 1.33, Target: atMost(1.5), N: 2000},
				{Key: rateKey(8), Name: "rate of 8", Measured: 2.1, N: 15},
				{Key: rateKey(64), Name: "rate of 64", Measured: 3.4, Target: atLeast(2), N: 15},
				{Key: "load.at", Name: "load of version 102", Measured: 1.7, N: 200},
				{Key: "disk", Name: "bytes <on> disk | text", Measured: 1.6, Target: atMost(1.5), N: 1},
				{Key: "writers", Name: "writers", Measured: 20, Count: true, Target: exactly(20), N: 1},
			}},
			{Store: "PostgreSQL", Results: []Result{
				{Key: historyKey(0), Name: "save after 10", Measured: 1.45, Target: atMost(1.5), N: 2000},
				{Key: "rate.floor", Name: "rate to floor", Measured: 0.7, Target: atLeast(0.6), N: 15},
				{Key: "disk", Name: "bytes <on> disk | text", Measured: 1.4, Target: atMost(1.5), N: 1},
			}},
		},
	}
}

func TestTables_haveARowPerResultWithItsVerdict(t *testing.T) {
	want := `| SQLite | measured | target | | about | n |
|---|---:|---:|---|---|---:|
| save after 10 | 1.31 | ≤ 1.5 | ok | 0.2 ms to 0.15 ms | 2,000 |
| save after 1,000 | 1.30 | ≤ 1.5 | ok |  | 2,000 |
| save after 10,000 | 1.33 | ≤ 1.5 | ok |  | 2,000 |
| rate of 8 | 2.10 | – |  |  | 15 |
| rate of 64 | 3.40 | ≥ 2 | ok |  | 15 |
| load of version 102 | 1.70 | – |  |  | 200 |
| bytes <on> disk \| text | 1.60 | ≤ 1.5 | **missed** |  | 1 |
| writers | 20 | = 20 | ok |  | 1 |

| PostgreSQL | measured | target | | about | n |
|---|---:|---:|---|---|---:|
| save after 10 | 1.45 | ≤ 1.5 | ok |  | 2,000 |
| rate to floor | 0.70 | ≥ 0.6 | ok |  | 15 |
| bytes <on> disk \| text | 1.40 | ≤ 1.5 | ok |  | 1 |
`
	if got := formatTables(sample()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPublish_writesPageAndChart(t *testing.T) {
	dir := t.TempDir()
	page, chart := filepath.Join(dir, "performance.md"), filepath.Join(dir, chartFile)
	if err := os.WriteFile(page, []byte("kept\n"+beginMark+"\nold\n"+endMark+"\nkept too\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publish(page, chart, sample()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kept\n" + beginMark, endMark + "\nkept too\n", "(" + chartFile + ")", "2 cores", "0.1 ms", "| rate to floor | 0.70 |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("the old section is still there")
	}
	drawn, err := os.ReadFile(chart)
	if err != nil || string(drawn) != drawChart(sample()) {
		t.Errorf("the chart is not what was drawn (%v)", err)
	}
}

func TestPublish_leavesAPageWithoutMarksAlone(t *testing.T) {
	dir := t.TempDir()
	page, chart := filepath.Join(dir, "performance.md"), filepath.Join(dir, chartFile)
	if err := os.WriteFile(page, []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publish(page, chart, sample()); err == nil {
		t.Error("published to a page without marks")
	}
	if err := section.Check(page); err == nil {
		t.Error("a page without marks passed the check")
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != "no marks" {
		t.Errorf("the page is %q now (%v)", text, err)
	}
	if _, err := os.Stat(chart); !os.IsNotExist(err) {
		t.Errorf("there is a chart: %v", err)
	}
}

func TestPerformancePage_canBeWrittenTo(t *testing.T) {
	if err := section.Check("../../docs/performance.md"); err != nil {
		t.Error(err)
	}
}
