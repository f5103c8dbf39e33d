package terminal

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Table is rows of text in aligned columns. Where a terminal is too narrow the
// flexible column is cut, and then columns are left out; on anything else nothing
// is cut.
type Table struct {
	Head  []string
	Flex  int      // the column that gives way
	Spare []string // the columns to do without, the first first
	rows  [][]Cell
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
func (t *Table) Layout(s *Screen) string { return t.layout(s, s.Width()) }

func (t *Table) layout(s *Screen, columns int) string {
	widths := make([]int, len(t.Head))
	for i, h := range t.Head {
		widths[i] = runewidth.StringWidth(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c.Text))
		}
	}
	shown := t.fit(widths, columns)
	var b strings.Builder
	head := make([]Cell, len(t.Head))
	for i, h := range t.Head {
		head[i] = Styled(h, Dim)
	}
	for _, row := range append([][]Cell{head}, t.rows...) {
		for n, i := range shown {
			text := runewidth.Truncate(row[i].Text, widths[i], "…")
			b.WriteString(s.Paint(row[i].Colour, text))
			if n < len(shown)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(text)+gap))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fit returns the columns that have room within a limit, 0 for none, and narrows
// the one that gives way.
func (t *Table) fit(widths []int, limit int) []int {
	shown := make([]int, len(widths))
	for i := range shown {
		shown[i] = i
	}
	if limit == 0 {
		return shown
	}
	over := func() int {
		total := -gap
		for _, i := range shown {
			total += widths[i] + gap
		}
		return max(0, total-limit)
	}
	least := min(minFlex, widths[t.Flex])
	for _, spare := range t.Spare {
		if over() <= widths[t.Flex]-least {
			break
		}
		shown = slices.DeleteFunc(shown, func(i int) bool { return t.Head[i] == spare })
	}
	widths[t.Flex] = max(least, widths[t.Flex]-over())
	return shown
}
