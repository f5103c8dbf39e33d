package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Config tells a child process what to do.
type Config struct {
	Program   string // its name in the table given to Main
	Job       any    // what Process.Job decodes
	KillWrite int    // the write point, counted from 1, at which it kills itself; 0: none
	KillAt    string // the named point at which it kills itself; empty: none
	Record    bool   // keep the names of all points, see Points

	// OnReport receives the reports of the process one by one. The process
	// waits while the function blocks. Nil: reports are dropped.
	OnReport func(json.RawMessage)
}

// Child is a child process, seen from the test.
type Child struct {
	Ready <-chan struct{} // closed when the process is ready or gone
	Gone  <-chan struct{} // closed when it has ended

	config Config
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	wake   func() error // set by Stop
	stderr strings.Builder

	mu       sync.Mutex // guards what follows
	killed   string
	ended    message
	points   []string
	problems []string
}

// End says how a child process ended.
type End struct {
	Killed string // what killed it; empty: it ended by itself
	Busy   bool   // its program returned session.ErrBusy
}

// Start starts the test's own binary as a child process. The process dies when
// the context ends, and when the test process dies.
func Start(ctx context.Context, config Config) (*Child, error) {
	job, err := json.Marshal(config.Job)
	if err != nil {
		return nil, fmt.Errorf("encode the job of a child process: %w", err)
	}
	raw, err := json.Marshal(order{config.Program, job, config.KillWrite, config.KillAt, config.Record})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ready, gone := make(chan struct{}), make(chan struct{})
	c := &Child{Ready: ready, Gone: gone, config: config, cmd: exec.CommandContext(ctx, self)}
	c.cmd.Env = append(os.Environ(), variable+"="+string(raw), "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a child process: %w", err)
	}
	go c.listen(stdout, sync.OnceFunc(func() { close(ready) }), gone)
	return c, nil
}

func (c *Child) listen(stdout io.Reader, ready func(), gone chan struct{}) {
	defer close(gone)
	defer ready()
	for lines := bufio.NewReader(stdout); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // a line without an end was cut off by the kill
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			m.Problem = "unreadable line " + string(line)
		}
		if m.Ready {
			ready()
		}
		if m.Report != nil && c.config.OnReport != nil {
			c.config.OnReport(m.Report)
		}
		c.take(m)
	}
	_ = c.cmd.Wait() // Wait reads how it ended from the state of the process
}

func (c *Child) take(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Point != "":
		c.points = append(c.points, m.Point)
	case m.Dying != "":
		c.killed = m.Dying
	case m.Problem != "":
		c.problems = append(c.problems, m.Problem)
	case m.Done || m.Busy:
		c.ended = m
	}
}

// Kill sends SIGKILL to the process, unless it has ended. Wait reports by as the
// cause.
func (c *Child) Kill(by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd.Process.Kill() == nil {
		c.killed = by
	}
}

// GoOn ends one Process.Wait.
func (c *Child) GoOn() error {
	_, err := c.stdin.Write([]byte("\n"))
	return err
}

// Wait waits for the end of the process. It returns an error unless the program
// succeeded, was busy or was killed, and for any problem that it reported.
func (c *Child) Wait() (End, error) {
	<-c.Gone
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.problems) > 0:
	case c.ended.Done || c.ended.Busy: // also when a kill came too late
		return End{Busy: c.ended.Busy}, nil
	case c.killed != "" && killed(c.cmd.ProcessState):
		return End{Killed: c.killed}, nil
	}
	return End{}, fmt.Errorf("a child process ended with %v: %s\n%s", c.cmd.ProcessState, strings.Join(c.problems, "; "), c.stderr.String())
}

// Points returns the names of all points that the process passed, in order, if it
// recorded them. Call it after Wait.
func (c *Child) Points() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.points
}

// ID is the number that the system gave to the process.
func (c *Child) ID() int { return c.cmd.Process.Pid }
