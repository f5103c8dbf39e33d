package terminal

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// SoftBreak stands for a line end that the writer did not make.
const SoftBreak = '\U0010FF0D'

// Wrapper breaks lines between words so that they fit a width, in text that
// arrives in pieces. It keeps back a word until its end is known. Code blocks
// and tables keep their lines.
type Wrapper struct {
	line   strings.Builder // what began the line, to know a fence and a table
	column int             // after the last word and space
	word   []rune          // not passed on yet
	wide   int             // of the word
	fence  bool
}

// Write returns the next piece as it can be shown. A width of 0 or less breaks
// nothing.
func (w *Wrapper) Write(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch size := runewidth.RuneWidth(r); {
		case r == '\n':
			w.pass(&b, width)
			b.WriteRune(r)
			if strings.HasPrefix(w.line.String(), fenceMark) {
				w.fence = !w.fence
			}
			w.line.Reset()
			w.column = 0
		case r == ' ':
			w.pass(&b, width)
			if w.column < width || w.keepsLine() { // else the next word begins a line
				b.WriteRune(r)
			}
			w.column++
		case size > 1: // scripts without spaces break anywhere
			w.pass(&b, width)
			w.word, w.wide = append(w.word, r), size
			w.pass(&b, width)
		default:
			w.word, w.wide = append(w.word, r), w.wide+size
		}
	}
	return b.String()
}

// End returns what was kept back.
func (w *Wrapper) End(width int) string {
	var b strings.Builder
	w.pass(&b, width)
	*w = Wrapper{}
	return b.String()
}

// pass writes the word, on a new line if it does not fit.
func (w *Wrapper) pass(b *strings.Builder, width int) {
	if len(w.word) == 0 {
		return
	}
	if w.column > 0 && w.column+w.wide > width && !w.keepsLine() {
		b.WriteRune(SoftBreak)
		w.column = 0
	}
	word := string(w.word)
	if w.line.Len() < len(fenceMark) {
		w.line.WriteString(word)
	}
	b.WriteString(word)
	w.column += w.wide
	w.word, w.wide = w.word[:0], 0
}

// keepsLine reports a line of code or of a table.
func (w *Wrapper) keepsLine() bool {
	begin := w.line.String()
	return w.fence || strings.HasPrefix(begin, "|") || strings.HasPrefix(begin, fenceMark)
}
