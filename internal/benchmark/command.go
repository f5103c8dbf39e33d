package benchmark

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// Main runs a program that measures until it is done or interrupted, and ends the
// process: with 2 after a UsageError, with 1 after any other error.
func Main(name string, run func(ctx context.Context, args []string, out, progress io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	var usage *UsageError
	if errors.As(err, &usage) {
		os.Exit(2)
	}
	os.Exit(1)
}

// UsageError is an invalid command line.
type UsageError struct{ Reason string }

func (e *UsageError) Error() string { return e.Reason }

// Flags are the flags of every program that measures stores.
type Flags struct {
	*flag.FlagSet // for those that only one program has

	Quick, Write bool
	Stores       []string
	Dir          string // where the stores lie, as a whole path: a server's socket needs it

	stores string
	all    []string
}

// NewFlags returns the flags of a program that measures all these stores. Written
// says what -write updates.
func NewFlags(name, written string, out io.Writer, all ...string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), all: all}
	f.SetOutput(out)
	f.BoolVar(&f.Quick, "quick", false, "less of everything: shows that it works, not how fast it is")
	f.BoolVar(&f.Write, "write", false, "update "+written)
	f.StringVar(&f.stores, "stores", strings.Join(all, ","), "which stores, with commas between")
	f.StringVar(&f.Dir, "dir", "", "`folder` on the disk to measure (default: the system's for temporary files)")
	return f
}

// Parse reads a command line. It returns flag.ErrHelp or a UsageError.
func (f *Flags) Parse(args []string) (err error) {
	if err := f.FlagSet.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &UsageError{err.Error()}
	}
	if f.NArg() > 0 {
		return &UsageError{"takes no arguments, only flags"}
	}
	for name := range strings.SplitSeq(f.stores, ",") {
		if !slices.Contains(f.all, name) {
			return &UsageError{fmt.Sprintf("-stores: %q is none of %s", name, strings.Join(f.all, ", "))}
		}
		if !slices.Contains(f.Stores, name) {
			f.Stores = append(f.Stores, name)
		}
	}
	if f.Dir != "" {
		if f.Dir, err = filepath.Abs(f.Dir); err != nil {
			return &UsageError{"-dir: " + err.Error()}
		}
	}
	if f.Write && (f.Quick || len(f.Stores) < len(f.all)) {
		return &UsageError{"-write is for a whole run: without -quick, with all stores"}
	}
	return nil
}
