//go:build unix

package benchmark

import (
	"syscall"
	"time"
)

// ProcessorTime returns how long this process has worked so far, whatever else
// the machine did.
func ProcessorTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}
