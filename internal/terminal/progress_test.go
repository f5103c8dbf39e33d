package terminal

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mattn/go-runewidth"
)

// shownProgress runs work under a progress and is what it wrote.
func shownProgress(p *Console, work func(g *Progress)) string {
	var out bytes.Buffer
	p.Err.w = &out
	if p.Getenv == nil {
		p.Getenv = func(string) string { return "" }
	}
	g := p.Progress("copying", "session")
	work(g)
	g.End()
	return out.String()
}

func onTerminal() *Console { return &Console{Err: &Screen{Terminal: true}} }

func TestProgress_shortWorkShowsNothing(t *testing.T) {
	t.Parallel()
	for _, p := range []*Console{onTerminal(), {Err: &Screen{}}, {Err: &Screen{Terminal: true}, JSON: true}} {
		synctest.Test(t, func(t *testing.T) {
			long := time.Duration(0)
			if p.JSON {
				long = time.Hour // not even then
			}
			text := shownProgress(p, func(g *Progress) {
				g.Report(1, 2)
				time.Sleep(250*time.Millisecond + long)
				g.Report(2, 2)
			})
			if text != "" {
				t.Errorf("it shows %q", text)
			}
		})
	}
}

func TestProgress_barIsDrawnInPlaceAndLeavesOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := shownProgress(onTerminal(), func(g *Progress) {
			for i := range 100 {
				g.Report(i, 100)
				time.Sleep(100 * time.Millisecond)
			}
			g.Report(100, 100)
		})
		frames := strings.Split(text, clearLine)
		if len(frames) < 90 || frames[0] != "" {
			t.Fatalf("%d frames, the first %q", len(frames), frames[0])
		}
		for _, frame := range frames[:len(frames)-1] {
			if strings.Contains(frame, "\n") {
				t.Fatalf("a frame leaves its line: %q", frame)
			}
		}
		if middle := frames[len(frames)/2]; !strings.Contains(middle, "█") || !strings.Contains(middle, "░") ||
			!strings.Contains(middle, "% ") || !strings.Contains(middle, "/s") || !strings.Contains(middle, " left") {
			t.Errorf("a frame in the middle is %q", middle)
		}
		if last := frames[len(frames)-1]; last != "copying: 100 of 100 sessions in 10s\n" {
			t.Errorf("the last frame is %q", last)
		}
		if strings.Contains(strings.ReplaceAll(text, clearLine, ""), "\x1b") {
			t.Error("there are colours where none are allowed")
		}
	})
}

func TestProgress_linesWhereNothingCanBeDrawn(t *testing.T) {
	t.Parallel()
	dumb := onTerminal()
	dumb.Getenv = func(name string) string { return map[string]string{"TERM": "dumb"}[name] }
	for _, p := range []*Console{{Err: &Screen{}}, dumb} {
		synctest.Test(t, func(t *testing.T) {
			text := shownProgress(p, func(g *Progress) {
				time.Sleep(50 * time.Millisecond) // never at the moment of a line
				for i := range 120 {
					g.Report(i, 0)
					time.Sleep(100 * time.Millisecond)
				}
				g.Report(120, 0)
			})
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if len(lines) != 4 { // at the start, after 5 and 10 seconds, at the end
				t.Fatalf("%d lines: %q", len(lines), lines)
			}
			if lines[0] != "copying  2 sessions  6.7/s" || lines[3] != "copying: 120 sessions in 12s" {
				t.Errorf("lines %q", lines)
			}
			if strings.ContainsAny(text, "\r\x1b") {
				t.Errorf("what cannot be drawn is drawn: %q", text)
			}
		})
	}
}

func TestProgress_lineFitsEveryTerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Progress{what: "copying", noun: "session", begun: time.Now(), done: 123, total: 4567}
		time.Sleep(time.Minute)
		for columns := 1; columns <= 200; columns++ {
			if w := runewidth.StringWidth(g.line(columns)); w >= columns {
				t.Errorf("%d columns: a line of %d", columns, w)
			}
		}
		if line := g.line(30); line != "copying  123 of 4567 sessions" {
			t.Errorf("in 30 columns: %q", line)
		}
		if line := g.line(120); !strings.HasSuffix(line, "  123 of 4567 sessions  2%  2.0/s  36m07s left") || !strings.Contains(line, "█░") {
			t.Errorf("in 120 columns: %q", line)
		}
		g.done = 9999 // more than was announced
		g.line(100)
	})
}

func TestSpell_longAndShort(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0.3s": 300 * time.Millisecond, "9.9s": 9900 * time.Millisecond, "12s": 12 * time.Second, "1m05s": 65 * time.Second, "2h03m": 123*time.Minute + 5*time.Second,
	} {
		if got := DurationText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
