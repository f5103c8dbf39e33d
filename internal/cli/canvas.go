package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// canvas is a drawing on standard error that is made anew in its place, on a
// terminal. Elsewhere it draws nothing.
type canvas struct {
	to    *screen
	live  bool
	lines func(columns, height int) []string // the drawing; nil: none; called under mu

	mu     sync.Mutex // guards the rest, and what lines reads
	frame  int
	drawn  int    // lines of the drawing that is on the screen
	shown  string // the drawing
	paused bool   // somebody else writes to the terminal
}

func (p *program) canvas() *canvas {
	return &canvas{to: p.err, live: p.err.terminal && !p.json && p.getenv("TERM") != "dumb"}
}

// animate draws frame after frame until it is stopped.
func (c *canvas) animate(stop <-chan struct{}, before func()) {
	if !c.live {
		return
	}
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		before()
		c.mu.Lock()
		c.frame++
		c.draw()
		c.mu.Unlock()
	}
}

// draw makes the drawing anew, in one write, and only where it differs.
func (c *canvas) draw() {
	if !c.live || c.paused {
		return
	}
	lines := c.lines(c.to.size())
	text := strings.Join(lines, "\n")
	if lines == nil || text == c.shown && c.drawn > 0 {
		return
	}
	var b strings.Builder
	if c.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", c.drawn)
	}
	b.WriteString("\r")
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J") // what a longer drawing left
	fmt.Fprint(c.to, b.String())
	c.drawn, c.shown = len(lines), text
}

// erase takes the drawing off the screen.
func (c *canvas) erase() {
	if c.drawn > 0 {
		fmt.Fprintf(c.to, "\x1b[%dA\r\x1b[J", c.drawn)
		c.drawn = 0
	}
}

// aside lets something else be written, such as a question to a person, with
// nothing drawn meanwhile.
func (c *canvas) aside(write func()) {
	c.mu.Lock()
	c.erase()
	c.paused = true
	c.mu.Unlock()
	write()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	c.draw()
}
