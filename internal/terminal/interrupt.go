package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interrupts are the signals that ask the program to stop what it does:
// Ctrl-C and SIGTERM. Work is interrupted in order, so that it can be continued;
// a second signal during that ends the program at once.
type Interrupts struct {
	Signals chan os.Signal
	catch   func() // begin or continue to catch signals
	release func() // let the next signal end the program
}

// ListenForSignals catches signals from now on. It also makes writing to a closed pipe
// an error instead of the end: a turn must not die because of `| head`.
func ListenForSignals() *Interrupts {
	i := &Interrupts{Signals: make(chan os.Signal, 1)}
	i.catch = func() { signal.Notify(i.Signals, os.Interrupt, syscall.SIGTERM) }
	i.release = func() { signal.Reset(os.Interrupt, syscall.SIGTERM) }
	i.catch()
	signal.Ignore(syscall.SIGPIPE)
	return i
}

// NewInterrupts returns signals that come from elsewhere than the system.
func NewInterrupts(signals chan os.Signal) *Interrupts {
	return &Interrupts{Signals: signals, catch: func() {}, release: func() {}}
}

// Raise is Ctrl-C at a terminal that sends no signal for it.
func (i *Interrupts) Raise() {
	select {
	case i.Signals <- os.Interrupt:
	default: // one is on its way
	}
}

// Close lets the next signal end the program.
func (i *Interrupts) Close() { i.release() }

// WatchInOrder is watch for work that can stop in order: the first Ctrl-C calls
// stop, and the next signal ends the context. SIGTERM ends it at once.
func (i *Interrupts) WatchInOrder(ctx context.Context, first func()) (work context.Context, stop func()) {
	work, cancel := context.WithCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for asked := false; ; asked = true {
			select {
			case s := <-i.Signals:
				if s == os.Interrupt && !asked {
					first()
					continue
				}
				i.release()
				cancel()
			case <-over:
			}
			return
		}
	}()
	return work, func() {
		close(over)
		<-done
		cancel()
		i.catch()
	}
}

// Watch returns a context that ends at the first signal. Stop ends the watching
// and returns the signal that came, or nil.
func (i *Interrupts) Watch(ctx context.Context) (work context.Context, stop func() os.Signal) {
	work, cancel := context.WithCancel(ctx)
	caught := make(chan os.Signal, 1)
	over := make(chan struct{})
	go func() {
		defer close(caught)
		select {
		case s := <-i.Signals:
			i.release()
			caught <- s
			cancel()
		case <-over:
		}
	}()
	return work, func() os.Signal {
		close(over)
		s := <-caught
		cancel()
		if s != nil {
			i.catch()
		}
		return s
	}
}
