package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// chart draws a run: a line for each unit, with a mark for how far it is.
type chart struct {
	to      *screen
	columns int // 0: lines may be of any length
	frame   int // of what turns while somebody works; negative: nothing does
	now     time.Time
}

// spinner is what turns, a character for each frame.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

const (
	maxLabel = 28
	maxAgent = 20
)

// lines draws the pattern of a spec. None of them is wider than the screen.
func (ch chart) lines(s *spec.Spec, c *course) []string {
	rows, _ := rowsOf(s, c)
	label, agent, figures, tie := 0, 0, 0, 0
	for _, r := range rows {
		label = max(label, min(maxLabel, runewidth.StringWidth(oneLine(r.label))))
		agent = max(agent, min(maxAgent, runewidth.StringWidth(oneLine(r.agent))))
		figures = max(figures, runewidth.StringWidth(ch.figures(r.piece)))
		if r.tie != "" {
			tie = 2
		}
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		colour, glyph := ch.mark(r.piece)
		left := "  " + fill(r.tie, tie)
		right := " " + fill(oneLine(r.label), label) + "  " + fill(oneLine(r.agent), agent) + "  " + fill(ch.figures(r.piece), figures)
		note := ch.note(r)
		if ch.columns > 0 {
			room := ch.columns - 1 - runewidth.StringWidth(left+glyph)
			right = cut(right, room)
			note = ch.fit(r, note, max(0, room-runewidth.StringWidth(right)-2))
		}
		if note != "" {
			note = "  " + note
		}
		if r.piece == nil {
			right = ch.to.paint(dim, right)
		}
		lines[i] = strings.TrimRight(ch.to.paint(dim, left)+ch.to.paint(colour, glyph)+right+ch.to.paint(ch.noteColour(r), note), " ")
	}
	return lines
}

// fit cuts a note to some columns; of an answer that is coming the end is kept.
func (ch chart) fit(r row, note string, columns int) string {
	over := runewidth.StringWidth(note) - columns
	if over > 0 && columns > 0 && r.piece != nil && r.piece.writing != "" {
		return runewidth.TruncateLeft(note, over+1, "…")
	}
	return cut(note, columns)
}

// cut returns text that is no wider than some columns.
func cut(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	return runewidth.Truncate(text, columns, "…")
}

// fill returns text in a column of some width, cut or filled with spaces.
func fill(text string, width int) string {
	return runewidth.FillRight(cut(text, width), width)
}

func (ch chart) mark(p *piece) (colour, string) {
	if p == nil {
		return dim, "·"
	}
	switch p.mark {
	case markGoing:
		if ch.frame < 0 {
			return cyan, "▸"
		}
		return cyan, string(spinner[ch.frame%len(spinner)])
	case markHalted:
		return yellow, "‖"
	case markAsking:
		return yellow, "?"
	case markDone:
		return green, "✓"
	case markFailed:
		return red, "✗"
	}
	return dim, "·"
}

// figures returns how long a piece took and what it used.
func (ch chart) figures(p *piece) string {
	if p == nil {
		return ""
	}
	var parts []string
	switch {
	case p.mark == markGoing && !p.began.IsZero() && ch.frame >= 0:
		parts = append(parts, durationText(ch.now.Sub(p.began)))
	case p.took > 0:
		parts = append(parts, durationText(p.took))
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
func (ch chart) note(r row) string {
	if r.piece != nil {
		if r.piece.writing != "" {
			return oneLine(r.piece.writing)
		}
		if r.piece.note != "" {
			return oneLine(r.piece.note)
		}
	}
	return oneLine(r.note)
}

func (ch chart) noteColour(r row) colour {
	if r.piece != nil {
		switch r.piece.mark {
		case markFailed:
			return red
		case markAsking:
			return yellow
		}
	}
	return dim
}

// sum returns a line with how far a run is and what it has used.
func (ch chart) sum(s *spec.Spec, c *course, elapsed time.Duration) string {
	rows, whole := rowsOf(s, c)
	finished := 0
	for _, r := range rows {
		if r.piece != nil && r.piece.mark == markDone {
			finished++
		}
	}
	text := fmt.Sprintf("%d done", finished)
	if whole {
		text = fmt.Sprintf("%d of %d done", finished, len(rows))
	}
	if n := c.used.Total(); n > 0 {
		text += " · " + tokensText(n)
	}
	if c.cost > 0 {
		text += " · $" + c.cost.String()
	}
	if elapsed > 0 {
		text += " · " + durationText(elapsed)
	}
	return text
}
