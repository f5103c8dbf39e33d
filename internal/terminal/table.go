package terminal

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// Table is rows of text in aligned columns. Where a terminal is too narrow the
// flexible column is cut first; on anything else nothing is cut.
type Table struct {
	Head []string
	Flex int // the column that gives way
	rows [][]Cell
}

// Cell is a text with a colour.
type Cell struct {
	Text   string
	Colour Colour
}

// Styled returns text in a colour.
func Styled(text string, c Colour) Cell { return Cell{text, c} }

const (
	gap     = 2
	minFlex = 8
)

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// Layout lays the table out for a screen.
func (t *Table) Layout(s *Screen) string {
	widths := make([]int, len(t.Head))
	for i, h := range t.Head {
		widths[i] = runewidth.StringWidth(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c.Text))
		}
	}
	if limit := s.Width(); limit > 0 {
		total := gap * (len(widths) - 1)
		for _, w := range widths {
			total += w
		}
		if total > limit {
			widths[t.Flex] = max(min(minFlex, widths[t.Flex]), widths[t.Flex]-(total-limit))
		}
	}
	var b strings.Builder
	head := make([]Cell, len(t.Head))
	for i, h := range t.Head {
		head[i] = Styled(h, Dim)
	}
	for _, row := range append([][]Cell{head}, t.rows...) {
		for i, c := range row {
			text := runewidth.Truncate(c.Text, widths[i], "…")
			b.WriteString(s.Paint(c.Colour, text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(text)+gap))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
