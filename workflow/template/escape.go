package template

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// simpleEscapes are the escapes of one letter.
const simpleEscapes = "a\ab\bf\fn\nr\rt\tv\v\\\\''\"\""

// unescape reads the escapes of a string literal as Python does. An escape
// it does not know stays as written, backslash included.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		n, err := escape(&b, s[i+1:])
		if err != nil {
			return "", err
		}
		i += 1 + n
	}
	return b.String(), nil
}

// escape writes what the escape at the start of s stands for, the backslash
// gone already, and returns how many bytes of s it took.
func escape(b *strings.Builder, s string) (int, error) {
	c := s[0]
	switch {
	case c == '\n':
		return 1, nil
	case c == 'x':
		return 3, codePoint(b, s, 2)
	case c == 'u':
		return 5, codePoint(b, s, 4)
	case c == 'U':
		return 9, codePoint(b, s, 8)
	case c == 'N':
		return 0, failf(KindSyntax, `\N{…} is not supported in strings; write the character`)
	case '0' <= c && c <= '7':
		n := 1
		for n < 3 && n < len(s) && '0' <= s[n] && s[n] <= '7' {
			n++
		}
		code, err := strconv.ParseUint(s[:n], 8, 16)
		b.WriteRune(rune(code))
		return n, err
	case c >= utf8.RuneSelf:
		// Jinja writes such characters as escapes before it reads the
		// escapes, so the backslash here escapes a backslash.
		r, size := utf8.DecodeRuneInString(s)
		b.WriteString(asciiEscape(r))
		return size, nil
	}
	for i := 0; i < len(simpleEscapes); i += 2 {
		if simpleEscapes[i] == c {
			b.WriteByte(simpleEscapes[i+1])
			return 1, nil
		}
	}
	b.WriteByte('\\')
	b.WriteByte(c)
	return 1, nil
}

// codePoint writes the character of the hexadecimal digits after s[0].
func codePoint(b *strings.Builder, s string, digits int) error {
	if len(s) < 1+digits {
		return failf(KindSyntax, `\%c needs %d hexadecimal digits`, s[0], digits)
	}
	code, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil {
		return failf(KindSyntax, `\%c needs %d hexadecimal digits`, s[0], digits)
	}
	r := rune(code)
	if !utf8.ValidRune(r) {
		return failf(KindSyntax, `\%s is not a character`, s[:1+digits])
	}
	b.WriteRune(r)
	return nil
}

// asciiEscape writes r as \xhh, \uhhhh or \Uhhhhhhhh.
func asciiEscape(r rune) string {
	switch {
	case r <= 0xFF:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xFFFF:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}
