package terminal

import (
	"strings"
)

// Markdown sets off the bold text, code and headings of Markdown that arrives
// in pieces; a line of code is kept back until it is whole. It adds colours and takes nothing away: without them the text is
// what the model wrote. A zero value on a screen without colours does nothing.
type Markdown struct {
	Screen *Screen
	held   string // may be the beginning of a mark
	middle bool   // of a line
	fence  bool   // inside a block of code
	begins bool   // the line begins that block, and may name its language
	block  codeColours
	strong bool
	code   bool
	head   bool
}

const (
	fenceMark  = "```"
	strongMark = "**"
	codeMark   = "`"
)

// Write returns the next piece as the screen gets it.
func (m *Markdown) Write(text string) string {
	if !m.Screen.Colour {
		return text
	}
	text, m.held = m.held+text, ""
	var b strings.Builder
	for text != "" {
		n := m.next(text)
		if n == 0 {
			m.held = text
			break
		}
		m.put(&b, text[:n])
		text = text[n:]
	}
	return b.String()
}

// End returns what is left, with all colours off.
func (m *Markdown) End() string {
	if !m.Screen.Colour {
		return ""
	}
	var b strings.Builder
	if m.held != "" {
		m.put(&b, m.held)
	}
	*m = Markdown{Screen: m.Screen}
	return b.String()
}

// next returns the length of the next piece that is all text or all mark, 0 where
// only what follows can tell.
func (m *Markdown) next(text string) int {
	if m.fence && text[0] != '\n' {
		return max(0, strings.IndexByte(text, '\n'))
	}
	if i := strings.IndexAny(text, "*`#\n"); i != 0 {
		if i < 0 {
			return len(text)
		}
		return i
	}
	switch text[0] {
	case '*':
		return m.mark(text, strongMark)
	case '`':
		if !m.middle {
			return m.mark(text, fenceMark)
		}
	}
	return 1
}

// mark returns the length of a mark, or of the one character that is none.
func (m *Markdown) mark(text, mark string) int {
	switch {
	case strings.HasPrefix(text, mark):
		return len(mark)
	case strings.HasPrefix(mark, text):
		return 0
	}
	return 1
}

// put writes a piece in its colour. A mark has the colour of what it sets off.
func (m *Markdown) put(b *strings.Builder, piece string) {
	switch {
	case piece == "\n":
		m.middle, m.strong, m.code, m.head, m.begins = false, false, false, false, false
		b.WriteString(piece)
		return
	case m.begins:
		m.block = colourCode(piece)
		b.WriteString(m.Screen.Paint(Dim, piece))
	case m.fence && strings.HasPrefix(piece, fenceMark):
		m.fence = false
		b.WriteString(m.Screen.Paint(Dim, piece))
	case m.fence:
		b.WriteString(m.block.paint(m.Screen, piece))
	case piece == fenceMark && !m.middle:
		m.fence, m.begins, m.block = true, true, codeColours{}
		b.WriteString(m.Screen.Paint(Dim, piece))
	case piece == codeMark:
		m.code = !m.code
		b.WriteString(m.Screen.Paint(Dim, piece))
	case piece == strongMark && !m.code:
		m.strong = !m.strong
		b.WriteString(m.Screen.Paint(Bold, piece))
	default:
		m.head = m.head || !m.middle && piece == "#"
		b.WriteString(m.Screen.Paint(m.colour(), piece))
	}
	m.middle = true
}

func (m *Markdown) colour() Colour {
	switch {
	case m.code:
		return Dim
	case m.strong || m.head:
		return Bold
	}
	return Plain
}
