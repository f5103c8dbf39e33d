package display

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// RunDrawing draws a run: a line for each unit, with a mark for how far it is.
type RunDrawing struct {
	To      *terminal.Screen
	Columns int // 0: lines may be of any length
	Frame   int // of what turns while somebody works; negative: nothing does
	Now     time.Time
}

// spinner is what turns, a character for each frame.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

const (
	maxLabel = 28
	maxAgent = 20
)

// Lines draws the pattern of a spec. None of them is wider than the screen.
func (ch RunDrawing) Lines(s *spec.Spec, c *RunState) []string {
	rows := rowsOf(s, c)
	label, agent, figures, tie := 0, 0, 0, 0
	for _, r := range rows {
		label = max(label, min(maxLabel, runewidth.StringWidth(terminal.OneLine(r.label))))
		agent = max(agent, min(maxAgent, runewidth.StringWidth(terminal.OneLine(r.agent))))
		figures = max(figures, runewidth.StringWidth(ch.figures(r.unit)))
		if r.tie != "" {
			tie = 2
		}
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		colour, glyph := ch.mark(r.unit)
		left := "  " + terminal.Fill(r.tie, tie)
		right := " " + terminal.Fill(terminal.OneLine(r.label), label) + "  " + terminal.Fill(terminal.OneLine(r.agent), agent) + "  " + terminal.Fill(ch.figures(r.unit), figures)
		note := ch.note(r)
		if ch.Columns > 0 {
			room := ch.Columns - 1 - runewidth.StringWidth(left+glyph)
			right = terminal.Cut(right, room)
			note = ch.fit(r, note, max(0, room-runewidth.StringWidth(right)-2))
		}
		if note != "" {
			note = "  " + note
		}
		if r.unit == nil {
			right = ch.To.Paint(terminal.Dim, right)
		}
		lines[i] = strings.TrimRight(ch.To.Paint(terminal.Dim, left)+ch.To.Paint(colour, glyph)+right+ch.To.Paint(ch.noteColour(r), note), " ")
	}
	return lines
}

// fit cuts a note to some columns; of an answer that is coming the end is kept.
func (ch RunDrawing) fit(r row, note string, columns int) string {
	over := runewidth.StringWidth(note) - columns
	if over > 0 && columns > 0 && r.unit != nil && r.unit.writing != "" {
		return runewidth.TruncateLeft(note, over+1, "…")
	}
	return terminal.Cut(note, columns)
}

func (ch RunDrawing) mark(p *unitState) (terminal.Colour, string) {
	if p == nil {
		return terminal.Dim, "·"
	}
	switch p.mark {
	case markGoing:
		if ch.Frame < 0 {
			return terminal.Cyan, "▸"
		}
		return terminal.Cyan, string(spinner[ch.Frame%len(spinner)])
	case markHalted:
		return terminal.Yellow, "‖"
	case markAsking:
		return terminal.Yellow, "?"
	case markDone:
		return terminal.Green, "✓"
	case markFailed:
		return terminal.Red, "✗"
	}
	return terminal.Dim, "·"
}

// figures returns how long a unit took and what it used.
func (ch RunDrawing) figures(p *unitState) string {
	if p == nil {
		return ""
	}
	var parts []string
	switch {
	case p.mark == markGoing && !p.began.IsZero() && ch.Frame >= 0:
		parts = append(parts, terminal.DurationText(ch.Now.Sub(p.began)))
	case p.took > 0:
		parts = append(parts, terminal.DurationText(p.took))
	}
	if n := p.used.Total(); n > 0 {
		text := tokensText(n)
		if p.estimated {
			text = "~" + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " · ")
}

// tokensText returns a number of tokens, its thousands set off.
func tokensText(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n == 1 {
		return "1 token"
	}
	return digits + " tokens"
}

// note returns what there is to say of a row besides figures.
func (ch RunDrawing) note(r row) string {
	if r.unit != nil {
		if r.unit.writing != "" {
			return terminal.OneLine(r.unit.writing)
		}
		if r.unit.note != "" {
			return terminal.OneLine(r.unit.note)
		}
	}
	return terminal.OneLine(r.note)
}

func (ch RunDrawing) noteColour(r row) terminal.Colour {
	if r.unit != nil {
		switch r.unit.mark {
		case markFailed:
			return terminal.Red
		case markAsking:
			return terminal.Yellow
		}
	}
	return terminal.Dim
}

// Sum returns a line with how far a run is, counted as in listings, and what it has
// used.
func (ch RunDrawing) Sum(s *spec.Spec, c *RunState, elapsed time.Duration) string {
	finished := 0
	for _, p := range c.order {
		if p.mark == markDone && workflow.Counts(p.unit, p.agent) {
			finished++
		}
	}
	text := fmt.Sprintf("%d done", finished)
	if n := workflow.CountUnits(s.Pattern); n > 0 {
		text = fmt.Sprintf("%d of %d done", finished, n)
	}
	if n := c.used.Total(); n > 0 {
		text += " · " + tokensText(n)
	}
	if c.cost > 0 {
		text += " · $" + c.cost.String()
	}
	if elapsed > 0 {
		text += " · " + terminal.DurationText(elapsed)
	}
	return text
}
