//go:build unix

package storetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// child is a worker as the test that started it sees it.
type child struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stderr  strings.Builder
	reports chan report // closed when the worker is gone
	exit    error       // valid once reports is closed
}

// startChild starts a worker. The test ends it at the latest.
func startChild(t testing.TB, j job) *child {
	t.Helper()
	raw, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.CommandContext(t.Context(), self), reports: make(chan report, 16)}
	c.cmd.Env = append(os.Environ(), jobVariable+"="+string(raw))
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start worker: %v", err)
	}
	go c.listen(stdout)
	t.Cleanup(func() {
		_ = c.cmd.Process.Signal(syscall.SIGKILL) // it may be gone
		for range c.reports {                     // until it is
		}
	})
	return c
}

func (c *child) listen(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // a line without an end was cut off by the kill
		}
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			r = report{Problem: "unreadable report " + string(line)}
		}
		c.reports <- r
	}
	c.exit = c.cmd.Wait()
	close(c.reports)
}

// next is the worker's next report, which must be of this step.
func (c *child) next(t testing.TB, step string) report {
	t.Helper()
	r := <-c.reports
	if r.Step != step {
		t.Fatalf("the worker reported %+v, want %s\n%s", r, step, c.stderr.String())
	}
	return r
}

// goOn tells a worker that waits to go on.
func (c *child) goOn(t testing.TB) {
	t.Helper()
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		t.Fatalf("tell a worker to go on: %v", err)
	}
}

// all waits for the worker's end and is everything it reported.
func (c *child) all(t testing.TB) []report {
	t.Helper()
	var list []report
	for r := range c.reports {
		if r.Problem != "" {
			t.Errorf("worker: %s\n%s", r.Problem, c.stderr.String())
		}
		list = append(list, r)
	}
	return list
}

// killed reports whether SIGKILL ended the worker.
func (c *child) killed() bool {
	var exit *exec.ExitError
	if !errors.As(c.exit, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// openQuiet opens the store without watching its writes.
func openQuiet(t testing.TB, p Processes, url string) store.Store {
	t.Helper()
	st, err := p.Open(url, func(string) {})
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}
