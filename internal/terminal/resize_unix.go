//go:build !windows

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize tells when the terminal has another size, until it is stopped.
func notifyResize() (resized <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	return signals, func() { signal.Stop(signals) }
}
