//go:build unix

package rules

import (
	"os"
	"syscall"
)

// lockFile waits for the lock of a file, which its closing gives back.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
