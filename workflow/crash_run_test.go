package workflow_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// What a run leaves in its directory.
const (
	notesFile   = "notes.md"
	outDir      = "out"
	effectsFile = "effects"
)

// crashRun is one run of a spec, worked on by processes of which all but the
// last are killed, and the record of what they did.
type crashRun struct {
	site  *crashSite
	plan  *crashPlan
	job   crashJob
	lives []found
	after session.Session // what the last process left; zero: nothing
	kills int

	mu      sync.Mutex // guards what follows
	now     *crashChild
	gate    func(ask) // holds up an answer; nil: none is
	killAsk string    // the request at which the process is killed; empty: none
	asks    []ask
}

// found is what the log held when a process began: the requests that were
// answered, and the tool calls that had their result.
type found struct{ answered, finished map[string]bool }

// ask is a request that the recorder received from a life, counted from 0.
type ask struct {
	life        int
	key, system string
}

// asked notes a request and reports whether it is to be answered.
func (r *crashRun) asked(a ask) bool {
	r.mu.Lock()
	r.asks = append(r.asks, a)
	child, kill, gate := r.now, a.key == r.killAsk, r.gate
	if kill {
		r.killAsk = ""
	}
	r.mu.Unlock()
	if kill {
		child.kill("request received: " + a.key)
	} else if gate != nil {
		gate(a)
	}
	return !kill
}

func (r *crashRun) requests() []ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asks)
}

// live lets one process work on the run until its end or until it is killed,
// and says what killed it.
func (r *crashRun) live(ctx context.Context, j crashJob) (killed string, err error) {
	child, err := r.begin(ctx, j)
	if err != nil {
		return "", err
	}
	if killed, _, err = child.ended(); err != nil {
		return "", err
	}
	if killed != "" {
		r.kills++
	}
	if r.site.settled != nil {
		if err := r.site.settled(ctx, r.job.Session); err != nil {
			return "", err
		}
	}
	if err := r.load(ctx); err != nil {
		return "", err
	}
	if !r.after.IsZero() { // from here on the store is all that is needed
		err = os.RemoveAll(r.job.Spec)
	}
	return killed, err
}

// begin starts the next process.
func (r *crashRun) begin(ctx context.Context, j crashJob) (*crashChild, error) {
	j.Life = len(r.lives)
	r.lives = append(r.lives, inLog(r.after))
	r.mu.Lock() // its first request waits until it can be killed for it
	defer r.mu.Unlock()
	child, err := j.start(ctx)
	r.now = child
	return child, err
}

// inLog is what the log of a run holds.
func inLog(s session.Session) found {
	f := found{map[string]bool{}, map[string]bool{}}
	if s.IsZero() {
		return f
	}
	for _, m := range s.Messages() {
		if m.Role == session.RoleAssistant {
			f.answered[keyIn(m.Content.Text())] = true
		}
		if m.ToolResult != nil {
			f.finished[m.ToolResult.CallID] = true
		}
	}
	return f
}

// load reads the run as the next process would find it.
func (r *crashRun) load(ctx context.Context) (err error) {
	st, err := crashOpen(ctx, r.job.Store, r.job.URL, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	r.after, err = rt.Get(ctx, r.job.Session, holdfast.Whole(), holdfast.WithTail())
	if errors.Is(err, session.ErrNotFound) {
		r.after, err = session.Session{}, nil
	}
	return err
}

// trace is a line that a tool left, and in which life.
type trace struct {
	what, call string
	life       int
}

func (r *crashRun) traces() ([]trace, error) {
	raw, err := os.ReadFile(filepath.Join(r.job.Dir, effectsFile))
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

// crashChild is a process at work, as its parent sees it.
type crashChild struct {
	cmd    *exec.Cmd
	stderr strings.Builder
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
	c := &crashChild{cmd: exec.CommandContext(ctx, self), gone: make(chan struct{})}
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

// ended is how the process ended: what killed it, or its last report. A
// problem it told of is an error, however it ended.
func (c *crashChild) ended() (killed string, last crashReport, err error) {
	<-c.gone
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.reports); n > 0 {
		last = c.reports[n-1]
	}
	var problems []string
	for _, r := range c.reports {
		if r.Problem != "" {
			problems = append(problems, r.Problem)
		}
	}
	switch {
	case problems != nil:
	case last.Done || last.Busy: // also when a kill came too late
		return "", last, nil
	case c.by != "":
		return c.by, last, nil
	}
	return "", last, fmt.Errorf("a process ended with %v after %+v: %s\n%s", c.cmd.ProcessState, last, strings.Join(problems, "; "), c.stderr.String())
}
