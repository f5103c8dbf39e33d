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
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var usage *usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// usageError is an invalid command line.
type usageError struct{ reason string }

func (e *usageError) Error() string { return e.reason }

type flags struct {
	quick, write bool
	again        bool // no measuring: the results of before
	stores       []string
	dir          string // where the stores lie
	root         string // of the repository
}

func parse(args []string, out io.Writer) (flags, error) {
	var f flags
	all := []string{storeSQLite, storePostgres}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(out)
	set.BoolVar(&f.quick, "quick", false, "less of everything: shows that it works, not how fast it is")
	set.BoolVar(&f.write, "write", false, "update results.json, docs/performance.md, docs/peers.svg and README.md")
	set.BoolVar(&f.again, "again", false, "do not measure, show the results in results.json")
	stores := set.String("stores", strings.Join(all, ","), "which stores, with commas between")
	set.StringVar(&f.dir, "dir", "", "`folder` on the disk to measure (default: the system's for temporary files)")
	set.StringVar(&f.root, "root", "..", "the `folder` of the repository")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return f, err
		}
		return f, &usageError{err.Error()}
	}
	if set.NArg() > 0 {
		return f, &usageError{"takes no arguments, only flags"}
	}
	for name := range strings.SplitSeq(*stores, ",") {
		if !slices.Contains(all, name) {
			return f, &usageError{fmt.Sprintf("-stores: %q is none of %s", name, strings.Join(all, ", "))}
		}
		f.stores = append(f.stores, name)
	}
	if f.write && (f.quick || len(f.stores) < len(all)) {
		return f, &usageError{"-write is for a whole run: without -quick, with all stores"}
	}
	if f.write && !f.again && len(peers()) == 0 {
		return f, &usageError{"-write needs the other contenders: build with -tags peers"}
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
	if f.write { // better now than after minutes of measuring
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
	if _, err := io.WriteString(out, formatTables(report)); err != nil || !f.write {
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
