// Package crashtest kills processes while they work and checks what the next ones
// do: they do not ask the model again for an answer in the log, they do not
// repeat a tool call with a result in the log, and the work ends as if nothing
// had happened.
//
// A package describes its work in a Scenario: how a process starts or resumes
// it, what its log holds, and what must be true in the end. It gives Main the
// same work for the child processes, and its tests are a few lines:
//
//	func TestMain(m *testing.M) {
//		crashtest.Main(map[string]crashtest.Work{"turn": workOnTurn})
//		os.Exit(m.Run())
//	}
//
//	func TestCrash_sqlite(t *testing.T) {
//		place := crashtest.NewPlace(t, crashtest.Config{Store: "sqlite"})
//		plan := place.MustRehearse(t, turns)
//		tally := place.KillAll(t, crashtest.Cells(plan, plan.Kills()), 0)
//		tally.Log(t, "killed at", nil, crashtest.Kills, crashtest.AskedAgain, crashtest.Differences)
//	}
//
// The letter in this package's own tests is the smallest whole scenario.
package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/store"
)

// Work starts the work, or resumes it if it was started before, and finishes it.
// It returns session.ErrBusy if another process is working on it.
type Work func(ctx context.Context, w *Worker) error

// Scenario is work that must survive a crash of its process.
type Scenario struct {
	Name string // of the work in the table given to Main
	Row  string // of its runs in a tally
	Work Work

	// Prepare makes what a run needs before its first process, and returns the
	// job that Worker.Job decodes.
	Prepare func(ctx context.Context, r *Run, st store.Store) (job any, err error)

	// Reply reads a request to the model's server and returns the key of its
	// answer, a note, and the reply. Nil: processes have their own model, which
	// calls Worker.Asked.
	Reply func(r *Run, body []byte) (key, detail string, reply provtest.Reply, err error)

	// Load reads what the store holds, after each process.
	Load func(ctx context.Context, r *Run, st store.Store) (Found, error)

	// Once names the tool calls that must not run twice. Nil: none.
	Once func(call string) bool

	// MostLost is how many answers one crash may lose. 0: any number.
	MostLost int

	// Check finds what else is wrong after a process, in r.Last. Nil: nothing.
	Check func(r *Run) []error

	// CheckEnd finds what else is wrong when the work is done, and in what it
	// ended differently from an undisturbed run. In the rehearsal that is the
	// run itself.
	CheckEnd func(r, undisturbed *Run) []error
}

// Found is the work that is in a log.
type Found struct {
	Answers map[string]bool // of the model
	Started map[string]bool // tool calls
	Results map[string]bool // tool calls that have their result
	Unknown map[string]bool // tool calls of which nobody knows the outcome
	State   any             // the scenario's own
}

// job tells a child process what to do.
type job struct {
	Store, URL string
	Run, Dir   string
	Life       int
	Lease      time.Duration
	Model      string
	Own        json.RawMessage
}

// Worker is a process at work.
type Worker struct {
	*child.Process
	Run   string // the id of the run
	Dir   string // of the run, for files
	Life  int    // how many processes worked on the run before
	Lease time.Duration
	Model string // the URL of the model's server
	Store store.Store

	own     json.RawMessage
	journal journal

	mu       sync.Mutex // guards problems
	problems []error
}

// Job decodes what Prepare returned.
func (w *Worker) Job(v any) error { return json.Unmarshal(w.own, v) }

// Header tells the model's server who asks.
func (w *Worker) Header() http.Header {
	return http.Header{runHeader: {w.Run}, lifeHeader: {strconv.Itoa(w.Life)}}
}

// Asked records a request for an answer, if the model is in this process.
func (w *Worker) Asked(key string) error { return w.effect(Asked, "request received: ", key) }

// Began records the start of a tool call.
func (w *Worker) Began(call string) error { return w.effect(Began, "tool began: ", call) }

// Ended records the end of a tool call.
func (w *Worker) Ended(call string) error { return w.effect(Ended, "tool ended: ", call) }

// effect records an effect that cannot be undone; the process may die after it.
func (w *Worker) effect(what What, point, key string) error {
	err := w.journal.add(Effect{What: what, Key: key, Life: w.Life})
	w.Point(point + key)
	return err
}

// Problem makes the test fail, however the process ends.
func (w *Worker) Problem(text string) {
	w.mu.Lock()
	w.problems = append(w.problems, errors.New(text))
	w.mu.Unlock()
	w.Process.Problem(text)
}

const (
	wholeFlag = "crash.whole"
	killsFlag = "crash.kills"
	seedFlag  = "crash.seed"
)

// Main does the work that a child process was started for and does not return.
// In a test process it defines the flags of the crash tests and returns. Call
// it first in TestMain.
func Main(works map[string]Work) {
	programs := map[string]child.Program{}
	for name, work := range works {
		programs[name] = func(ctx context.Context, p *child.Process) error { return runJob(ctx, p, work) }
	}
	child.Main(programs)
	flag.Bool(wholeFlag, false, "kill at every moment on every store, not at a sample of them")
	flag.Int(killsFlag, 0, "kills at random moments per store (0: a few)")
	flag.Uint64(seedFlag, 0, "seed of the random moments (0: a new one)")
}

// runJob opens the store, does the work and closes the store.
func runJob(ctx context.Context, p *child.Process, work Work) (err error) {
	var j job
	if err := p.Job(&j); err != nil {
		return err
	}
	w := &Worker{Process: p, Run: j.Run, Dir: j.Dir, Life: j.Life, Lease: j.Lease, Model: j.Model, own: j.Own, journal: journalIn(j.Dir)}
	if w.Store, err = Open(ctx, j.Store, j.URL, p.Write); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Store.Close()) }()
	p.Ready()
	return work(ctx, w)
}

// Whole reports whether to test every moment, and not a sample.
func Whole() bool { return child.Flag[bool](wholeFlag) }

// RandomKills returns the wanted number of random kills; 0: a few.
func RandomKills() int { return child.Flag[int](killsFlag) }
