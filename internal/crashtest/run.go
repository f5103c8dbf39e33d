package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// Run is one piece of work in several processes, all but the last of which are
// killed.
type Run struct {
	ID, Dir string
	Store   string // its name, and where it is
	URL     string
	Job     any // of its processes
	Lease   time.Duration
	Number  int     // tells runs apart that Prepare makes in different ways
	Lives   []Found // what each process found
	Last    Found   // what the last process left

	plan  *Plan
	held  *inmem.Store // instead of the store at URL, for work in this process
	kills int
	at    []int // kills by the number of answers in the log

	mu     sync.Mutex // guards what follows
	now    *child.Child
	killAt string // the request at which the process is killed; empty: none
	hold   func(Effect)
}

// NewRun prepares a run of the work.
func (p *Plan) NewRun(ctx context.Context, number int) (_ *Run, err error) {
	id := uuid.NewString()
	r := &Run{ID: id, Dir: filepath.Join(p.place.dir, id), Store: p.place.config.Store, URL: p.place.newURL(id), Lease: p.place.config.Lease, Number: number, plan: p}
	if r.Store == Memory {
		r.held = inmem.New(inmem.Config{})
	}
	if err := os.Mkdir(r.Dir, 0o700); err != nil {
		return nil, err
	}
	p.place.add(r)
	st, closeStore, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if r.Job, err = p.Prepare(ctx, r, st); err != nil {
		return nil, fmt.Errorf("prepare a run: %w", err)
	}
	r.Last, err = p.Load(ctx, r, st)
	return r, err
}

// open opens the store as the next process will.
func (r *Run) open(ctx context.Context) (st store.Store, closeStore func() error, err error) {
	if r.held != nil {
		return r.held, func() error { return nil }, nil
	}
	if st, err = Open(ctx, r.Store, r.URL, nil); err != nil {
		return nil, nil, err
	}
	return st, st.Close, nil
}

// Reload reads the log that the processes so far have left.
func (r *Run) Reload(ctx context.Context) error {
	if err := r.plan.place.settled(ctx, r.ID); err != nil {
		return err
	}
	st, closeStore, err := r.open(ctx)
	if err != nil {
		return err
	}
	r.Last, err = r.plan.Load(ctx, r, st)
	return errors.Join(err, closeStore())
}

// Live runs one process until it ends or is killed, and returns what killed it.
func (r *Run) Live(ctx context.Context, k Kill) (killed string, err error) {
	c, err := r.Start(ctx, k)
	if err != nil {
		return "", err
	}
	if k.random != nil {
		r.killSoon(c, k)
	}
	return r.Finish(ctx, c)
}

// Start starts the next process.
func (r *Run) Start(ctx context.Context, k Kill) (*child.Child, error) {
	own, err := json.Marshal(r.Job)
	if err != nil {
		return nil, err
	}
	j := job{r.Store, r.URL, r.ID, r.Dir, r.begin(), r.Lease, r.plan.place.modelURL(), own}
	r.mu.Lock() // its first request waits until it can be killed for it
	defer r.mu.Unlock()
	r.killAt = k.Request
	r.now, err = child.Start(ctx, child.Config{Program: r.plan.Name, Job: j, KillWrite: k.Write, KillAt: k.At, Record: k.record})
	return r.now, err
}

// begin records what the next process finds and returns its number. A call that
// must run once, and that started and has no result, now has an unknown outcome.
func (r *Run) begin() (life int) {
	found := r.Last
	found.Unknown = maps.Clone(found.Unknown)
	if found.Unknown == nil {
		found.Unknown = map[string]bool{}
	}
	for call := range found.Started {
		if r.plan.once(call) && !found.Results[call] {
			found.Unknown[call] = true
		}
	}
	life = len(r.Lives)
	if life > 0 {
		maps.Copy(found.Unknown, r.Lives[life-1].Unknown)
	}
	r.Lives = append(r.Lives, found)
	return life
}

// Finish waits for the end of a process, reads what it left, and returns what
// killed it.
func (r *Run) Finish(ctx context.Context, c *child.Child) (killed string, err error) {
	end, err := c.Wait()
	if err == nil && end.Busy {
		err = errors.New("a process found the work busy")
	}
	if err == nil {
		err = r.Reload(ctx)
	}
	if err != nil {
		return "", err
	}
	if end.Killed != "" {
		r.kills++
		for len(r.at) <= len(r.Last.Answers) {
			r.at = append(r.at, 0)
		}
		r.at[len(r.Last.Answers)]++
	}
	if r.plan.Check != nil {
		err = errors.Join(r.plan.Check(r)...)
	}
	return end.Killed, err
}

// Hold calls gate before each answer from now on; the answer waits for it.
func (r *Run) Hold(gate func(Effect)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = gate
}

// asked records a request to the model's server and reports whether to answer
// it.
func (r *Run) asked(e Effect) (bool, error) {
	if err := journalIn(r.Dir).add(e); err != nil {
		return false, err
	}
	r.mu.Lock()
	c, kill, gate := r.now, e.Key == r.killAt, r.hold
	if kill {
		r.killAt = ""
	}
	r.mu.Unlock()
	if kill {
		c.Kill("request received: " + e.Key)
		<-c.Gone
		return false, nil
	}
	if gate != nil {
		gate(e)
	}
	return true, nil
}

// Effects returns all recorded effects so far.
func (r *Run) Effects() ([]Effect, error) { return journalIn(r.Dir).read() }

// Through runs one process for each kill and a last one that finishes, then
// returns Account.
func (r *Run) Through(ctx context.Context, kills ...Kill) (Counts, error) {
	killed := "nobody yet"
	for _, k := range append(kills, Kill{}) {
		var err error
		if killed, err = r.Live(ctx, k); err != nil {
			return r.counts(), err
		}
		if killed == "" {
			break
		}
	}
	if killed != "" {
		return r.counts(), fmt.Errorf("killed by %s, which nobody asked for", killed)
	}
	return r.Account()
}

// TakeUpTwice lets two processes resume the work at the same time: one must
// finish it, the other must get ErrBusy. Models answer only after one of them
// has given up.
func (r *Run) TakeUpTwice(ctx context.Context) error {
	busy, goOn := context.WithCancel(ctx)
	defer goOn()
	r.Hold(func(Effect) { <-busy.Done() })
	var pair [2]*child.Child
	for i := range pair {
		var err error
		if pair[i], err = r.Start(ctx, Kill{}); err != nil {
			return err
		}
	}
	first, second := pair[0], pair[1]
	select {
	case <-first.Gone:
	case <-second.Gone:
		first, second = second, first
	}
	goOn()
	end, err := first.Wait()
	if err == nil && !end.Busy {
		err = fmt.Errorf("the process that ended first was not told that the work is busy: %+v", end)
	}
	if err != nil {
		return err
	}
	_, err = r.Finish(ctx, second)
	return err
}
