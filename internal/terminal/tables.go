package terminal

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// Tables aligns the columns of Markdown tables in text that arrives in pieces.
// It keeps back a table until its end is known. A table that would not fit
// stays as it was written.
type Tables struct {
	line  strings.Builder // of a table, not whole yet
	begin string          // what began a line that is no table, to know a fence
	rows  []string
	other bool // the line is no table
	fence bool
}

// Write returns the next piece as it can be shown. A width of 0 or less aligns
// nothing.
func (t *Tables) Write(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' && t.line.Len() > 0:
			t.rows = append(t.rows, t.line.String())
			t.line.Reset()
		case r == '\n':
			b.WriteString(t.flush(width))
			b.WriteRune(r)
			if strings.HasPrefix(t.begin, fenceMark) {
				t.fence = !t.fence
			}
			t.begin, t.other = "", false
		case t.line.Len() > 0 || r == '|' && !t.other && !t.fence:
			t.line.WriteRune(r)
		default:
			b.WriteString(t.flush(width))
			t.other = true
			if len(t.begin) < len(fenceMark) {
				t.begin += string(r)
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// End returns what was kept back.
func (t *Tables) End(width int) string {
	text := t.line.String()
	if text != "" {
		t.rows = append(t.rows, text)
	}
	shown := t.flush(width)
	if text != "" {
		shown = strings.TrimSuffix(shown, "\n")
	}
	*t = Tables{}
	return shown
}

// flush returns the rows that are whole, each with its line end.
func (t *Tables) flush(width int) string {
	rows := t.rows
	t.rows = nil
	if len(rows) == 0 {
		return ""
	}
	return strings.Join(alignTable(rows, width), "\n") + "\n"
}

// alignTable returns the rows of a table with columns of one width each; rows
// that are no table, or would be too wide, as they are.
func alignTable(rows []string, width int) []string {
	var (
		cells  [][]string
		widths []int
	)
	for _, row := range rows {
		split := splitCells(row)
		for i, c := range split {
			if i == len(widths) {
				widths = append(widths, 3)
			}
			if len(cells) != 1 {
				widths[i] = max(widths[i], runewidth.StringWidth(c))
			}
		}
		cells = append(cells, split)
	}
	total := 1
	for _, w := range widths {
		total += w + 3
	}
	if len(cells) < 2 || !isRule(cells[1]) || total > width {
		return rows
	}
	aligned := make([]string, len(rows))
	for n, row := range cells {
		var b strings.Builder
		for i, w := range widths {
			text := ""
			if i < len(row) {
				text = row[i]
			}
			right := i < len(cells[1]) && strings.HasSuffix(cells[1][i], ":") && !strings.HasPrefix(cells[1][i], ":")
			pad := strings.Repeat(" ", max(0, w-runewidth.StringWidth(text)))
			switch {
			case n == 1:
				b.WriteString("| " + strings.Repeat("-", w) + " ")
			case right:
				b.WriteString("| " + pad + text + " ")
			default:
				b.WriteString("| " + text + pad + " ")
			}
		}
		aligned[n] = b.String() + "|"
	}
	return aligned
}

// splitCells returns the cells of a row. A bar behind a backslash is text.
func splitCells(row string) []string {
	var cells []string
	row = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(row), "|"), "|")
	for c := range strings.SplitSeq(strings.ReplaceAll(row, `\|`, "\x00"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(c), "\x00", `\|`))
	}
	return cells
}

// isRule reports the row below the head of a table.
func isRule(cells []string) bool {
	for _, c := range cells {
		if c == "" || strings.Trim(c, "-:") != "" {
			return false
		}
	}
	return true
}
