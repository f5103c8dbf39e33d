package terminal

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Canvas is a drawing on standard error that is made anew in its place, on a
// terminal. Elsewhere it draws nothing.
type Canvas struct {
	to    *Screen
	Live  bool
	Lines func(columns, height int) []string // the drawing; nil: none; called under mu

	Mu     sync.Mutex // guards the rest, and what lines reads
	Frame  int
	Drawn  int    // lines of the drawing that is on the screen
	shown  string // the drawing
	paused bool   // somebody else writes to the terminal
}

// NewCanvas returns a drawing that the caller gives its lines.
func (p *Console) NewCanvas() *Canvas {
	return &Canvas{to: p.Err, Live: p.Err.Terminal && !p.JSON && p.Getenv("TERM") != "dumb"}
}

// Animate draws frame after frame until it is stopped.
func (c *Canvas) Animate(stop <-chan struct{}, before func()) {
	if !c.Live {
		return
	}
	c.to.canvas.Store(c)
	defer c.to.canvas.Store(nil)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		before()
		c.Mu.Lock()
		c.Frame++
		c.Draw()
		c.Mu.Unlock()
	}
}

// Draw makes the drawing anew, in one write, and only where it differs.
func (c *Canvas) Draw() {
	if !c.Live || c.paused {
		return
	}
	lines := c.Lines(c.to.size())
	text := strings.Join(lines, "\n")
	if lines == nil || text == c.shown && c.Drawn > 0 {
		return
	}
	var b strings.Builder
	if c.Drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", c.Drawn)
	}
	b.WriteString("\r")
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J") // what a longer drawing left
	fmt.Fprint(c.to, b.String())
	c.Drawn, c.shown = len(lines), text
}

// Erase takes the drawing off the screen.
func (c *Canvas) Erase() {
	if c.Drawn > 0 {
		fmt.Fprintf(c.to, "\x1b[%dA\r\x1b[J", c.Drawn)
		c.Drawn = 0
	}
}

// Aside lets something else be written, such as a question to a person, with
// nothing drawn meanwhile.
func (c *Canvas) Aside(write func()) {
	c.Mu.Lock()
	c.Erase()
	c.paused = true
	c.Mu.Unlock()
	write()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.paused = false
	c.Draw()
}
