package files

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sniffBytes is how much of a file decides whether it is text.
const sniffBytes = 8 << 10

// binary reports that the beginning of a file is no text.
func binary(start []byte) bool { return bytes.IndexByte(start[:min(len(start), sniffBytes)], 0) >= 0 }

// visible returns the content of a file as results show it. A control character
// becomes its picture, so that an agent sees that it is there and a terminal
// does not obey it; what is not UTF-8 becomes a replacement character.
func visible(text string) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case !hidden(r):
			return r
		case r < ' ':
			return '␀' + r
		case r == 0x7f:
			return '␡'
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069': // they turn the direction of text
		return true
	}
	return r == utf8.RuneError || unicode.IsControl(r)
}

// clip shortens a line.
func clip(line string, most int) string {
	if len(line) <= most {
		return line
	}
	for most > 0 && !utf8.RuneStart(line[most]) {
		most--
	}
	return line[:most] + "…"
}
