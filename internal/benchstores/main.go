// Command benchstores measures the durable stores and compares them with their
// targets.
//
//	go run .            print the tables
//	go run . -quick     less of everything, in under a minute
//	go run . -write     put tables and chart into docs
//
// The results are ratios of medians; both sides are measured in turns within one
// run. Times only show the order of magnitude. A missed target is reported and
// is not an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

func main() { benchmark.Main("benchstores", run) }

// The stores that can be measured, as the command line names them.
const (
	nameSQLite   = "sqlite"
	namePostgres = "postgres"
)

type flags struct {
	*benchmark.Flags

	json     bool
	postgres string // URL; empty: a server of our own
	docs     string
}

func parse(args []string, out io.Writer) (flags, error) {
	f := flags{Flags: benchmark.NewFlags("benchstores", "performance.md and stores.svg in the docs folder", out, nameSQLite, namePostgres)}
	f.BoolVar(&f.json, "json", false, "print the report as JSON")
	f.StringVar(&f.postgres, "postgres", "", "`URL` of a PostgreSQL to use; its schemas are dropped afterwards (default: a server of its own)")
	f.StringVar(&f.docs, "docs", "../../docs", "the docs `folder`")
	err := f.Parse(args)
	return f, err
}

// run measures and prints, and writes the docs with -write. After an error the
// docs are unchanged.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	f, err := parse(args, progress)
	if err != nil {
		return err
	}
	page := filepath.Join(f.docs, "performance.md")
	if f.Write { // better now than after minutes of measuring
		if err := section.Check(page); err != nil {
			return err
		}
	}
	report, err := measure(ctx, f, progress)
	if err != nil {
		return err
	}
	if f.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		_, err = io.WriteString(out, formatTables(report))
	}
	if err != nil || !f.Write {
		return err
	}
	return publish(page, filepath.Join(f.docs, chartFile), report)
}

// measure runs all measurements on the chosen stores.
func measure(ctx context.Context, f flags, progress io.Writer) (_ Report, err error) {
	dir, err := os.MkdirTemp(f.Dir, "benchstores")
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	report := Report{Quick: f.Quick}
	if report.Machine, err = benchmark.ThisMachine(dir); err != nil {
		return Report{}, err
	}
	for _, name := range f.Stores {
		e, stop, err := openEngine(ctx, name, f, dir)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", name, err)
		}
		results, err := e.measure(ctx, scaleOf(f.Quick), progress)
		stop()
		if err != nil {
			return Report{}, err
		}
		report.Stores = append(report.Stores, StoreResults{Store: e.name, Results: results})
	}
	return report, nil
}

// openEngine prepares a kind of store. The returned function ends it.
func openEngine(ctx context.Context, name string, f flags, dir string) (engine, func(), error) {
	if name == nameSQLite {
		return sqliteEngine(dir), func() {}, nil
	}
	return postgresEngine(ctx, f.postgres, f.Dir)
}
