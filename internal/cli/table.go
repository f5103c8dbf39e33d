package cli

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// table is rows of text in aligned columns. Where a terminal is too narrow the
// flexible column is cut first; on anything else nothing is cut.
type table struct {
	head []string
	flex int // the column that gives way
	rows [][]cell
}

type cell struct {
	text   string
	colour colour
}

const (
	gap     = 2
	minFlex = 8
)

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// layout lays the table out for a screen.
func (t *table) layout(s *screen) string {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = runewidth.StringWidth(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c.text))
		}
	}
	if limit := s.width(); limit > 0 {
		total := gap * (len(widths) - 1)
		for _, w := range widths {
			total += w
		}
		if total > limit {
			widths[t.flex] = max(min(minFlex, widths[t.flex]), widths[t.flex]-(total-limit))
		}
	}
	var b strings.Builder
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{h, dim}
	}
	for _, row := range append([][]cell{head}, t.rows...) {
		for i, c := range row {
			text := runewidth.Truncate(c.text, widths[i], "…")
			b.WriteString(s.paint(c.colour, text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(text)+gap))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
