// Command bench measures Holdfast beside other libraries that keep the sessions of
// agents: the same work for all, by turns within one run.
//
//	go run -tags peers .           print the tables
//	go run -tags peers . -quick    less of everything: shows that it works, not how fast
//	go run -tags peers . -write    also update docs, README and results.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

func main() { benchmark.Main("bench", run) }

type flags struct {
	*benchmark.Flags

	again bool   // no measuring: the results of before
	root  string // of the repository
}

func parse(args []string, out io.Writer) (flags, error) {
	f := flags{Flags: benchmark.NewFlags("bench", "results.json, docs/performance.md, docs/peers.svg and README.md", out, storeSQLite, storePostgres)}
	f.BoolVar(&f.again, "again", false, "do not measure, show the results in results.json")
	f.StringVar(&f.root, "root", "..", "the `folder` of the repository")
	if err := f.Parse(args); err != nil {
		return f, err
	}
	if f.Write && !f.again && len(peers()) == 0 {
		return f, &benchmark.UsageError{Reason: "-write needs the other contenders: build with -tags peers"}
	}
	return f, nil
}

// run measures and prints, and writes the pages with -write. After an error in
// measuring nothing is written.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	f, err := parse(args, progress)
	if err != nil {
		return err
	}
	if f.Write { // better now than after minutes of measuring
		for _, page := range []string{performancePage, readmePage} {
			if err := section.Check(filepath.Join(f.root, page)); err != nil {
				return err
			}
		}
	}
	results := filepath.Join(f.root, "bench", "results.json")
	var report Report
	if f.again {
		report, err = readReport(results)
	} else {
		report, err = measureAll(ctx, f, progress)
	}
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, formatTables(report)); err != nil || !f.Write {
		return err
	}
	return publish(f.root, results, report)
}

func readReport(file string) (r Report, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// publish writes the raw results, the pages and the chart.
func publish(root, results string, r Report) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(results, append(raw, '\n'), 0o644),
		section.Write(filepath.Join(root, performancePage), formatSection(r)),
		section.Write(filepath.Join(root, readmePage), formatShort(r)),
		os.WriteFile(filepath.Join(root, "docs", chartFile), []byte(drawChart(r)), 0o644),
	)
}

// section is the part of each page that is written here.
var section = benchmark.SectionOf("make bench-peers")

// The pages and the chart, in the repository.
const (
	performancePage = "docs/performance.md"
	readmePage      = "README.md"
	chartFile       = "peers.svg"
)
