package cli

import (
	"fmt"
	"sync"
	"time"
)

// waitLine shows at a terminal, in a line that is erased again, how long the
// first word of an answer has been waited for. Elsewhere it shows nothing.
type waitLine struct {
	to    *screen
	close func() // ends the redrawing; called without the lock

	mu    *sync.Mutex // of whoever else writes to the terminal: guards the rest
	since time.Time   // zero: nothing is waited for
	drawn bool
}

const (
	waitQuietly = time.Second
	waitRedraw  = 250 * time.Millisecond
)

// newWaitLine begins to redraw the line. The caller closes it, and calls its
// other methods with the lock held.
func (p *program) newWaitLine(mu *sync.Mutex) *waitLine {
	w := &waitLine{to: p.err, mu: mu, close: func() {}}
	if p.err.terminal && p.out.terminal && p.getenv("TERM") != "dumb" {
		w.close = repeat(waitRedraw, waitRedraw, w.draw)
	}
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

func (w *waitLine) draw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if elapsed := time.Since(w.since); !w.since.IsZero() && elapsed >= waitQuietly {
		fmt.Fprint(w.to, clearLine+w.to.paint(dim, fmt.Sprintf("waiting for an answer · %ds", elapsed/time.Second)))
		w.drawn = true
	}
}
