package template

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// clean takes control characters out of a rendered text, tab and line ends
// apart, and composes what can be composed.
func clean(text string) string {
	text = strings.Map(func(c rune) rune {
		switch {
		case c == '\t' || c == '\n' || c == '\r':
			return c
		case c < ' ' || 0x7F <= c && c <= 0x9F:
			return -1
		}
		return c
	}, text)
	return norm.NFC.String(text)
}
