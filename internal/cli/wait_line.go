package cli

import (
	"fmt"
	"sync"
	"time"
)

// waitLine shows at a terminal, in a line that is erased again, how long the
// first word of an answer has been waited for. Elsewhere it shows nothing.
type waitLine struct {
	to   *screen
	live bool

	stop, stopped chan struct{}

	mu    *sync.Mutex // of whoever else writes to the terminal: guards the rest
	since time.Time   // zero: nothing is waited for
	drawn bool
}

const (
	waitQuietly = time.Second
	waitRedraw  = 250 * time.Millisecond
)

// newWaitLine begins to watch. Whoever begins it ends it, and calls its other
// methods with the lock held.
func (p *program) newWaitLine(mu *sync.Mutex) *waitLine {
	w := &waitLine{
		to: p.err, live: p.err.terminal && p.out.terminal && p.getenv("TERM") != "dumb", mu: mu,
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go w.run()
	return w
}

// begin says that a word is waited for from now on.
func (w *waitLine) begin() { w.since = time.Now() }

// hide erases what is shown, so that something else can be written. The waiting
// may continue.
func (w *waitLine) hide() {
	if w.drawn {
		fmt.Fprint(w.to, clearLine)
		w.drawn = false
	}
}

// stopWaiting says that there is nothing to wait for any more.
func (w *waitLine) stopWaiting() {
	w.hide()
	w.since = time.Time{}
}

// close ends the watching. It is called without the lock.
func (w *waitLine) close() {
	close(w.stop)
	<-w.stopped
}

func (w *waitLine) run() {
	defer close(w.stopped)
	if !w.live {
		return
	}
	tick := time.NewTicker(waitRedraw)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.draw()
		}
	}
}

func (w *waitLine) draw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if elapsed := time.Since(w.since); !w.since.IsZero() && elapsed >= waitQuietly {
		fmt.Fprint(w.to, clearLine+w.to.paint(dim, fmt.Sprintf("waiting for an answer · %ds", elapsed/time.Second)))
		w.drawn = true
	}
}
