//go:build unix

package child

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// Stop stops the process until Continue, or until the test process ends: a
// stopped process does not notice that by itself.
func (c *Child) Stop() error {
	guard := exec.Command("/bin/sh", "-c", `cat; kill -CONT "$1"`, "sh", strconv.Itoa(c.ID())) //nolint:noctx // it ends with its pipe
	alive, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		return fmt.Errorf("guard a stopped process: %w", err)
	}
	c.wake = func() error {
		_ = alive.Close()
		_ = guard.Wait() // the process may be gone
		return c.cmd.Process.Signal(syscall.SIGCONT)
	}
	return c.cmd.Process.Signal(syscall.SIGSTOP)
}

// Continue lets a stopped process run.
func (c *Child) Continue() error { return c.wake() }

// killed reports whether SIGKILL ended a process.
func killed(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
