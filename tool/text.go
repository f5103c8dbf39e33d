package tool

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape matches what moves a terminal's cursor, colours its text or sets its
// title: CSI, OSC and the other strings, and the two-character sequences.
var escape = regexp.MustCompile(`(?:\x1b\[|\x{9b})[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]?` +
	`|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?` +
	`|\x1b[\x20-\x2f]*[\x30-\x7e]?`)

// Plain makes text from outside safe for a transcript and a terminal: it drops
// terminal sequences and control characters, makes a lone carriage return a new
// line, and replaces what is not UTF-8 by a replacement character.
func Plain(text string) string {
	if !strings.ContainsFunc(text, suspect) {
		return text
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	text = escape.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case control(r):
			return -1
		}
		return r
	}, text)
}

func suspect(r rune) bool { return r == utf8.RuneError || r == '\r' || control(r) }

// control reports a character that is not there to be read. Those that turn
// the direction of text are among them: they make it look like another.
func control(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return true
	}
	return unicode.IsControl(r)
}

// Head returns the beginning of a text, about most bytes, with a last line that
// says how much was cut. A shorter text stays as it is.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	kept := text[:boundary(text, most)]
	return fmt.Sprintf("%s\n[cut: the first %d of %d bytes]", kept, len(kept), len(text))
}

// Ends returns the beginning and the end of a text, about most bytes together,
// with a line between them that says how much was cut. A shorter text stays as
// it is.
func Ends(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := text[:boundary(text, most/2)]
	tail := text[boundary(text, len(text)-(most-most/2)):]
	return fmt.Sprintf("%s\n[cut: %d of %d bytes]\n%s", head, len(text)-len(head)-len(tail), len(text), tail)
}

// boundary returns the last start of a character at or before i.
func boundary(text string, i int) int {
	for back := 0; back < utf8.UTFMax && i > 0 && i < len(text) && !utf8.RuneStart(text[i]); back++ {
		i--
	}
	return i
}
