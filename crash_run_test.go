package holdfast_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// crashRun is one turn of one session, worked on by processes of which all
// but the last are killed, and the account of what they did.
type crashRun struct {
	id    string
	site  *crashSite
	job   crashJob
	lives []life
	after session.Session // what the last process left

	killed crashCounts // the kills alone

	mu      sync.Mutex // guards what follows
	gate    func(ask)  // holds up an answer; nil: none is
	now     *crashChild
	killAsk int // the step at whose request the process is killed; 0: none
	asks    []ask
}

// life is one process of a run: what it found in the log, and the calls of
// unknown outcome that it or an earlier one has to tell the model about.
type life struct {
	found durable
	told  map[string]bool
}

// ask is a request that the recorder received from a life, counted from 0.
type ask struct {
	life, step int
	body       string
}

// trace is a line that a tool left, and in which life.
type trace struct {
	what, call string
	life       int
}

// durable is what a log holds of a turn.
type durable struct {
	answers           int // steps the model has answered
	started, finished map[string]bool
}

// asked notes a request and reports whether it is to be answered.
func (r *crashRun) asked(a ask) bool {
	r.mu.Lock()
	r.asks = append(r.asks, a)
	child, kill, gate := r.now, a.step == r.killAsk, r.gate
	if kill {
		r.killAsk = 0
	}
	r.mu.Unlock()
	if kill {
		child.kill(fmt.Sprint("request received: ", a.step))
	}
	if gate != nil {
		gate(a)
	}
	return !kill
}

// hold sets what holds up answers from now on.
func (r *crashRun) hold(gate func(ask)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = gate
}

// crashChild is a process at work, as its parent sees it.
type crashChild struct {
	cmd    *exec.Cmd
	stderr strings.Builder
	ready  chan struct{}
	gone   chan struct{} // closed at its end

	reports []crashReport // valid when it is gone

	mu sync.Mutex // guards by
	by string     // what killed it, empty if nothing did
}

// start starts a process. The context ends it.
func (j crashJob) start(ctx context.Context) (*crashChild, error) {
	raw, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crashChild{cmd: exec.CommandContext(ctx, self), ready: make(chan struct{}), gone: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), crashVariable+"="+string(raw), "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.listen(stdout)
	return c, nil
}

func (c *crashChild) listen(stdout io.Reader) {
	defer close(c.gone)
	ready := sync.OnceFunc(func() { close(c.ready) })
	defer ready()
	for lines := bufio.NewReader(stdout); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // a line without an end was cut off by the kill
		}
		var r crashReport
		if err := json.Unmarshal(line, &r); err != nil {
			r.Problem = "unreadable report " + string(line)
		}
		if r.Dying != "" {
			c.mu.Lock()
			c.by = r.Dying
			c.mu.Unlock()
		}
		c.reports = append(c.reports, r)
		if r.Ready {
			ready()
		}
	}
	_ = c.cmd.Wait() // how it ended is in its state
}

// kill ends the process, if it has not ended by itself, and waits until it is
// gone.
func (c *crashChild) kill(by string) {
	c.mu.Lock()
	if c.cmd.Process.Kill() == nil {
		c.by = by
	}
	c.mu.Unlock()
	<-c.gone
}

// ended is how the process ended: what killed it, or its last report.
func (c *crashChild) ended() (killed string, last crashReport, err error) {
	<-c.gone
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.reports); n > 0 {
		last = c.reports[n-1]
	}
	switch {
	case last.Done || last.Busy: // also when a kill came too late
		return "", last, nil
	case c.by != "" && last.Problem == "":
		return c.by, last, nil
	}
	return "", last, fmt.Errorf("a process ended with %v after %+v\n%s", c.cmd.ProcessState, last, c.stderr.String())
}

// live lets one process work on the turn until its end or until it is killed,
// and says what killed it. Disturb may do so.
func (r *crashRun) live(ctx context.Context, j crashJob, disturb func(*crashChild)) (killed string, err error) {
	child, err := r.begin(ctx, j)
	if err != nil {
		return "", err
	}
	if disturb != nil {
		disturb(child)
	}
	if killed, _, err = child.ended(); err != nil {
		return "", err
	}
	if r.site.settled != nil {
		if err := r.site.settled(ctx, r.id); err != nil {
			return "", err
		}
	}
	if r.after, err = r.load(ctx); err != nil {
		return "", err
	}
	if killed != "" {
		r.killed.kills++
		r.killed.found[inLog(r.after).answers]++
	}
	return killed, r.nothingLost()
}

// begin starts the next process.
func (r *crashRun) begin(ctx context.Context, j crashJob) (*crashChild, error) {
	found := inLog(r.after)
	next := life{found: found, told: map[string]bool{}}
	if n := len(r.lives); n > 0 {
		maps.Copy(next.told, r.lives[n-1].told)
	}
	for call := range found.started {
		if _, nature := callOrigin(call); nature == tool.Once && !found.finished[call] {
			next.told[call] = true
		}
	}
	j.Life = len(r.lives)
	r.lives = append(r.lives, next)
	r.mu.Lock() // its first request waits until it can be killed for it
	defer r.mu.Unlock()
	child, err := j.start(ctx)
	r.now = child
	return child, err
}

// nothingLost fails where something happened that relied on what the log does
// not hold: a tool runs when its answer is there, an answer is asked for when
// all results before it are.
func (r *crashRun) nothingLost() error {
	now := inLog(r.after)
	traces, err := r.traces()
	if err != nil {
		return err
	}
	var faults []error
	for _, t := range traces {
		if step, _ := callOrigin(t.call); step > now.answers || !now.started[t.call] {
			faults = append(faults, fmt.Errorf("call %s ran, but the log holds %d answers and the begin of %v", t.call, now.answers, now.started))
		}
	}
	for _, a := range r.requests() {
		if a.step > now.answers+1 {
			faults = append(faults, fmt.Errorf("answer %d was asked for with %d in the log", a.step, now.answers))
		}
		for _, call := range slices.Concat(crashCalls[:a.step-1]...) {
			if !now.finished[call.ID] {
				faults = append(faults, fmt.Errorf("answer %d was asked for without the result of %s in the log", a.step, call.ID))
			}
		}
	}
	return errors.Join(faults...)
}

func (r *crashRun) requests() []ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asks)
}

func (r *crashRun) traces() ([]trace, error) {
	raw, err := os.ReadFile(r.job.Effects)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []trace
	for line := range strings.Lines(string(raw)) {
		var t trace
		if _, err := fmt.Sscan(line, &t.what, &t.call, &t.life); err != nil {
			return nil, fmt.Errorf("trace %q: %w", line, err)
		}
		all = append(all, t)
	}
	return all, err
}

// inLog is what a session's log holds of the turn.
func inLog(s session.Session) durable {
	d := durable{started: map[string]bool{}, finished: map[string]bool{}}
	if s.IsZero() || s.Execution() == nil {
		return d
	}
	for _, step := range s.Execution().Steps {
		d.answers++
		for _, e := range step.ToolExecutions {
			d.started[e.CallID], d.finished[e.CallID] = true, e.CompletedAt != nil
		}
	}
	return d
}

// load opens the store as the next process would find it.
func (r *crashRun) load(ctx context.Context) (s session.Session, err error) {
	st, err := crashOpen(ctx, r.job.Store, r.job.URL, nil)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return st.Load(ctx, store.Ref{Tenant: r.id, ID: r.id}, true)
}

// waitUntilFree waits until nobody holds the session any more: on some stores
// the lease of a dead process has to run out.
func (r *crashRun) waitUntilFree(t *testing.T) {
	t.Helper()
	st, err := crashOpen(t.Context(), r.job.Store, r.job.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	tails, ok := st.(store.Tails)
	if !ok {
		t.Fatalf("%s has no tails", r.job.Store)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		free, err := tails.Interrupted(t.Context(), r.id)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(free, func(f store.Ref) bool { return f.ID == r.id }) {
			return
		}
		<-tick.C
	}
}
