package terminal

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
)

// Progress shows how far long work has come: on a terminal a bar that is redrawn
// in place and leaves one line in the end, elsewhere a line now and then. Work that is over in a moment shows nothing. A nil progress shows
// nothing at all.
type Progress struct {
	to    *Screen
	live  bool   // draw in place
	what  string // the work: "copying"
	noun  string // what is counted: "session"
	begun time.Time

	stop func() // ends the drawing

	mu          sync.Mutex
	done, total int  // guarded by mu
	shown       bool // guarded by mu
}

const (
	patience  = 300 * time.Millisecond // work that takes no longer shows nothing
	redraw    = 100 * time.Millisecond
	nextLine  = 5 * time.Second // between two lines where nothing can be drawn in place
	clearLine = "\r\x1b[K"
)

// Progress begins to show some work. Whoever begins it ends it, and writes to
// standard error only when it has ended.
func (p *Console) Progress(what, noun string) *Progress {
	if p.JSON {
		return nil
	}
	g := &Progress{to: p.Err, live: p.Err.Terminal && p.Getenv("TERM") != "dumb", what: what, noun: noun, begun: time.Now()}
	every := nextLine
	if g.live {
		every = redraw
	}
	g.stop = repeat(patience, every, g.draw)
	return g
}

// repeat calls a function after a pause and then again and again, until it is
// stopped. Stop waits for a call that is running.
func repeat(first, every time.Duration, do func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pause := time.NewTimer(first)
		defer pause.Stop()
		for {
			select {
			case <-quit:
				return
			case <-pause.C:
				do()
				pause.Reset(every)
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// Report says how far the work is; a total of 0 is not known. It is a
// store.Progress.
func (g *Progress) Report(done, total int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done, g.total = done, total
}

// Count says that one more of so many is done.
func (g *Progress) Count(total int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done, g.total = g.done+1, total
}

// End shows how far the work came, if it was shown at all.
func (g *Progress) End() {
	if g == nil {
		return
	}
	g.stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shown {
		return
	}
	if g.live {
		fmt.Fprint(g.to, clearLine)
	}
	g.to.Status("%s: %s in %s", g.what, g.amount(), DurationText(time.Since(g.begun)))
}

func (g *Progress) draw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown = true
	if !g.live {
		g.to.Status("%s", strings.Join(append([]string{g.what}, g.figures()...), "  "))
		return
	}
	fmt.Fprint(g.to, clearLine+g.to.Paint(Dim, g.line(g.to.Width())))
}

// amount returns how much was done, of how much if that is known.
func (g *Progress) amount() string {
	if g.total == 0 {
		return CountOf(g.done, g.noun)
	}
	return fmt.Sprintf("%d of %s", g.done, CountOf(g.total, g.noun))
}

// figures returns what can be said in numbers, the most important first.
func (g *Progress) figures() []string {
	figures := []string{g.amount()}
	if g.total > 0 {
		figures = append(figures, fmt.Sprintf("%d%%", 100*g.done/g.total))
	}
	elapsed := time.Since(g.begun)
	if g.done == 0 || elapsed <= 0 {
		return figures
	}
	rate := float64(g.done) / elapsed.Seconds()
	digits := 0
	if rate < 10 {
		digits = 1
	}
	figures = append(figures, fmt.Sprintf("%.*f/s", digits, rate))
	if left := g.total - g.done; left > 0 {
		figures = append(figures, DurationText(time.Duration(float64(left)/rate*float64(time.Second)))+" left")
	}
	return figures
}

const (
	maxBar = 40
	minBar = 8
	// DefaultWidth is that of a terminal that does not say.
	DefaultWidth = 80
)

// line returns the bar with its figures for a terminal of some columns. The last
// column stays free: writing there would begin a new line on some. What does
// not fit is left out, the bar first, then figures from the end.
func (g *Progress) line(columns int) string {
	if columns <= 0 {
		columns = DefaultWidth
	}
	room := columns - 1
	figures := g.figures()
	text := func() string { return strings.Join(figures, "  ") }
	free := room - runewidth.StringWidth(g.what+"    "+text())
	if g.total > 0 && free >= minBar {
		size := min(maxBar, free)
		full := min(size, size*g.done/g.total)
		return g.what + "  " + strings.Repeat("█", full) + strings.Repeat("░", size-full) + "  " + text()
	}
	for len(figures) > 1 && runewidth.StringWidth(g.what+"  "+text()) > room {
		figures = figures[:len(figures)-1]
	}
	return runewidth.Truncate(g.what+"  "+text(), room, "")
}

// DurationText returns a duration in the two largest units that matter.
func DurationText(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}
