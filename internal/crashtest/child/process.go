// Package child starts a test's binary again as a child process that can be
// killed: by itself at a write point or a named point, or by the test.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
)

// variable has the order of a child process as JSON.
const variable = "HOLDFAST_TEST_CHILD"

// WritePrefix is the prefix of the names of write points.
const WritePrefix = "write "

// Program is the code of a child process.
type Program func(ctx context.Context, p *Process) error

// order says what a child process does and where it dies.
type order struct {
	Program   string
	Job       json.RawMessage
	KillWrite int
	KillAt    string
	Record    bool
}

// message is one line from a child to the test.
type message struct {
	Ready   bool            `json:"ready,omitempty"`
	Report  json.RawMessage `json:"report,omitempty"`
	Point   string          `json:"point,omitempty"`
	Dying   string          `json:"dying,omitempty"`
	Done    bool            `json:"done,omitempty"`
	Busy    bool            `json:"busy,omitempty"`
	Problem string          `json:"problem,omitempty"`
}

// Main runs the program that a child process was started for and does not
// return. In any other process it returns at once. Call it first in TestMain.
func Main(programs map[string]Program) {
	raw, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	p := &Process{resume: make(chan struct{}, 1)}
	err := json.Unmarshal([]byte(raw), &p.order)
	program := programs[p.order.Program]
	if err == nil && program == nil {
		err = fmt.Errorf("no program %q: give it to child.Main", p.order.Program)
	}
	if err == nil {
		go p.listen()
		err = program(context.Background(), p)
	}
	switch {
	case errors.Is(err, session.ErrBusy):
		p.send(message{Busy: true})
	case err != nil:
		p.send(message{Problem: err.Error()})
		os.Exit(1)
	default:
		p.send(message{Done: true})
	}
	os.Exit(0)
}

// Flag returns the value of a flag of the test; zero if it is not defined.
func Flag[T any](name string) (value T) {
	if f := flag.Lookup(name); f != nil {
		if getter, ok := f.Value.(flag.Getter); ok {
			value, _ = getter.Get().(T)
		}
	}
	return value
}

// Process is a child process, seen from its program. The zero value is never
// killed and has no parent.
type Process struct {
	order  order
	resume chan struct{} // nil: there is no parent

	mu     sync.Mutex // guards writes, and makes points come one by one
	writes int
}

// Job decodes the job that the test gave to Start.
func (p *Process) Job(v any) error { return json.Unmarshal(p.order.Job, v) }

// KillAt returns the name of the point at which the process must die.
func (p *Process) KillAt() string { return p.order.KillAt }

// Write is a write point: a store calls it around every step that changes
// durable data.
func (p *Process) Write(point string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	p.pass(WritePrefix+point, p.writes == p.order.KillWrite)
}

// Point is another point at which the process can be killed.
func (p *Process) Point(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(name, name == p.order.KillAt)
}

// Die kills the process at once: nothing is closed, flushed or released.
func (p *Process) Die(at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(at, true)
}

// pass records a point, or dies there. mu is held, so that the last line of the
// process is complete.
func (p *Process) pass(name string, last bool) {
	if p.order.Record {
		p.send(message{Point: name})
	}
	if !last {
		return
	}
	p.send(message{Dying: name})
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("still alive after SIGKILL: %v", err))
	}
	select {}
}

// Ready tells the test that the process starts its work.
func (p *Process) Ready() { p.send(message{Ready: true}) }

// Report sends a value to the test and returns after it is sent.
func (p *Process) Report(v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		p.send(message{Problem: err.Error()})
		return
	}
	p.send(message{Report: raw})
}

// Problem makes the test fail, however the process ends.
func (p *Process) Problem(text string) { p.send(message{Problem: text}) }

// Wait waits until the test calls GoOn.
func (p *Process) Wait() { <-p.resume }

// listen ends the process when the test process is gone.
func (p *Process) listen() {
	for input := bufio.NewReader(os.Stdin); ; {
		if _, err := input.ReadByte(); err != nil {
			os.Exit(1)
		}
		p.resume <- struct{}{}
	}
}

// send writes one line with one system call, so that a kill never leaves half a
// line.
func (p *Process) send(m message) {
	if p.resume == nil {
		return
	}
	raw, err := json.Marshal(m)
	if err == nil {
		_, err = os.Stdout.Write(append(raw, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot report to the test:", err)
		os.Exit(1)
	}
}
