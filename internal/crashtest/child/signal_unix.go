//go:build unix

package child

import (
	"os"
	"syscall"
)

// Stop stops the process until Continue.
func (c *Child) Stop() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a stopped process run.
func (c *Child) Continue() error { return c.cmd.Process.Signal(syscall.SIGCONT) }

// killed reports whether SIGKILL ended a process.
func killed(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
