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
		fmt.Fprintln(os.Stderr, "benchstores:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchstores:", err)
		os.Exit(1)
	}
}

// usageError is an invalid command line.
type usageError struct{ reason string }

func (e *usageError) Error() string { return e.reason }

// The stores that can be measured, as the command line names them.
const (
	nameSQLite   = "sqlite"
	namePostgres = "postgres"
)

type flags struct {
	quick, write, json bool
	stores             []string
	postgres           string // URL; empty: a server of our own
	dir                string // where the stores lie
	docs               string
}

func parse(args []string, out io.Writer) (flags, error) {
	var f flags
	all := []string{nameSQLite, namePostgres}
	set := flag.NewFlagSet("benchstores", flag.ContinueOnError)
	set.SetOutput(out)
	set.BoolVar(&f.quick, "quick", false, "less of everything: shows that it works, not how fast it is")
	set.BoolVar(&f.write, "write", false, "update performance.md and stores.svg in the docs folder")
	set.BoolVar(&f.json, "json", false, "print the report as JSON")
	stores := set.String("stores", strings.Join(all, ","), "which stores, with commas between")
	set.StringVar(&f.postgres, "postgres", "", "`URL` of a PostgreSQL to use; its schemas are dropped afterwards (default: a server of its own)")
	set.StringVar(&f.dir, "dir", "", "`folder` on the disk to measure (default: the system's for temporary files)")
	set.StringVar(&f.docs, "docs", "../../docs", "the docs `folder`")
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
		if !slices.Contains(f.stores, name) {
			f.stores = append(f.stores, name)
		}
	}
	if f.write && (f.quick || len(f.stores) < len(all)) {
		return f, &usageError{"-write is for a whole run: without -quick, with all stores"}
	}
	return f, nil
}

// run measures and prints, and writes the docs with -write. After an error the
// docs are unchanged.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	f, err := parse(args, progress)
	if err != nil {
		return err
	}
	page := filepath.Join(f.docs, "performance.md")
	if f.write { // better now than after minutes of measuring
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
	if err != nil || !f.write {
		return err
	}
	return publish(page, filepath.Join(f.docs, chartFile), report)
}

// measure runs all measurements on the chosen stores.
func measure(ctx context.Context, f flags, progress io.Writer) (_ Report, err error) {
	if f.dir != "" { // a server's socket needs the whole path
		if f.dir, err = filepath.Abs(f.dir); err != nil {
			return Report{}, err
		}
	}
	dir, err := os.MkdirTemp(f.dir, "benchstores")
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	report := Report{Quick: f.quick}
	if report.Machine, err = benchmark.ThisMachine(dir); err != nil {
		return Report{}, err
	}
	for _, name := range f.stores {
		e, stop, err := openEngine(ctx, name, f, dir)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", name, err)
		}
		results, err := e.measure(ctx, scaleOf(f.quick), progress)
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
	return postgresEngine(ctx, f.postgres, f.dir)
}
