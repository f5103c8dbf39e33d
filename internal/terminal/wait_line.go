package terminal

import (
	"fmt"
	"sync"
	"time"
)

// WaitLine shows at a terminal, in a line that is erased again, how long the
// first word of an answer has been waited for. Elsewhere it shows nothing.
type WaitLine struct {
	to    *Screen
	Close func() // ends the redrawing; called without the lock

	mu    *sync.Mutex // of whoever else writes to the terminal: guards the rest
	since time.Time   // zero: nothing is waited for
	drawn bool
}

const (
	waitQuietly = time.Second
	waitRedraw  = 250 * time.Millisecond
)

// NewWaitLine begins to redraw the line. The caller closes it, and calls its
// other methods with the lock held.
func (p *Console) NewWaitLine(mu *sync.Mutex) *WaitLine {
	w := &WaitLine{to: p.Err, mu: mu, Close: func() {}}
	if p.Err.Terminal && p.Out.Terminal && p.Getenv("TERM") != "dumb" {
		w.Close = repeat(waitRedraw, waitRedraw, w.draw)
	}
	return w
}

// Begin says that a word is waited for from now on.
func (w *WaitLine) Begin() { w.since = time.Now() }

// hide erases what is shown, so that something else can be written. The waiting
// may continue.
func (w *WaitLine) hide() {
	if w.drawn {
		fmt.Fprint(w.to, clearLine)
		w.drawn = false
	}
}

// StopWaiting says that there is nothing to wait for any more.
func (w *WaitLine) StopWaiting() {
	w.hide()
	w.since = time.Time{}
}

func (w *WaitLine) draw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if elapsed := time.Since(w.since); !w.since.IsZero() && elapsed >= waitQuietly {
		fmt.Fprint(w.to, clearLine+w.to.Paint(Dim, fmt.Sprintf("waiting for an answer · %ds", elapsed/time.Second)))
		w.drawn = true
	}
}
