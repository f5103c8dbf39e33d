package storetest

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/store"
)

// Opener opens a durable store. OnWrite must be called, with a name of the
// point, around every step that touches what outlives the process; the suite
// ends the process in it.
type Opener func(url string, onWrite func(point string)) (store.Store, error)

// Processes describes a durable store that several processes use.
type Processes struct {
	// Open is what Main was given.
	Open Opener

	// NewURL names an empty place where sessions can be kept, and has it
	// removed when the test is over.
	NewURL func(t testing.TB) string

	// ReplacesDead says that the store replaces the holder of a lease at once
	// when its process is dead. Main was told how holders are named.
	ReplacesDead bool

	// Leftovers lists what should not be there once a write is done, such as
	// temporary files. Nil: nothing can be left.
	Leftovers func(url string) ([]string, error)
}

const (
	killsFlag = "storetest.kills"
	seedFlag  = "storetest.seed"

	defaultKills = 20
	somePoints   = 16 // how many write points a worker is killed at by default
)

// Main is the TestMain of a package that calls RunProcesses. The suite starts
// the test's own binary again as its workers; Main is where they go to work.
// It does not return. Holder names a process as the holder of a lease, where
// the store can tell from the name that the process is dead.
//
//	func TestMain(m *testing.M) { storetest.Main(m, open) }
func Main(m *testing.M, open func(url string, onWrite func(point string)) (store.Store, error), holder ...func() (string, error)) {
	child.Main(map[string]child.Program{program: func(ctx context.Context, p *child.Process) error { return work(ctx, p, open, holder) }})
	flag.Int(killsFlag, defaultKills, "how often RunProcesses kills a worker under load; with more than the default it also kills one at every write point, not at some")
	flag.Uint64(seedFlag, 0, "seed of the random kills (0: a new one)")
	os.Exit(m.Run())
}

// RunProcesses checks what a durable store promises to several processes that
// race, are killed at every point of a write, or sleep through their lease.
// The package's TestMain must be Main.
func RunProcesses(t *testing.T, p Processes) {
	if flag.Lookup(killsFlag) == nil {
		t.Fatal("the package's TestMain does not call storetest.Main")
	}
	if len(processTests) == 0 {
		t.Skip("processes cannot be killed and stopped here")
	}
	for _, test := range processTests {
		t.Run("processes/"+test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, p)
		})
	}
}

// processTest checks one promise with several processes.
type processTest struct {
	name string
	run  func(t *testing.T, p Processes)
}

// program names what workers do.
const program = "storetest worker"
