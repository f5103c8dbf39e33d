//go:build !unix

package child

import (
	"errors"
	"os"
)

// Stop is not possible on this system.
func (c *Child) Stop() error { return errors.ErrUnsupported }

// Continue is not possible on this system.
func (c *Child) Continue() error { return errors.ErrUnsupported }

// killed reports whether a process was ended: its exit code says no more.
func killed(s *os.ProcessState) bool { return !s.Success() }
