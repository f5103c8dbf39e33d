package template

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// isSpace reports white space as Python's strings and patterns see it: Unicode's,
// and the four separators U+001C to U+001F.
func isSpace(c rune) bool {
	return unicode.IsSpace(c) || 0x1C <= c && c <= 0x1F
}

// isCased reports letters that have a case.
func isCased(c rune) bool { return isUpper(c) || isLower(c) || unicode.IsTitle(c) }

func isUpper(c rune) bool { return unicode.IsUpper(c) || unicode.Is(unicode.Other_Uppercase, c) }

func isLower(c rune) bool { return unicode.IsLower(c) || unicode.Is(unicode.Other_Lowercase, c) }

// upper and lower use Unicode's full mappings: one letter may become several.
func upper(s string) string { return cases.Upper(language.Und).String(s) }

func lower(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i := range runes {
		b.WriteString(lowerAt(runes, i))
	}
	return b.String()
}

// title starts every run of cased letters with a capital. Anything else, an
// apostrophe too, starts a new run.
func title(s string) string {
	var b strings.Builder
	runes := []rune(s)
	inside := false
	for i, c := range runes {
		if inside {
			b.WriteString(lowerAt(runes, i))
		} else {
			b.WriteString(titleRune(c))
		}
		inside = isCased(c)
	}
	return b.String()
}

func capitalize(s string) string {
	runes := []rune(s)
	var b strings.Builder
	for i, c := range runes {
		if i == 0 {
			b.WriteString(titleRune(c))
		} else {
			b.WriteString(lowerAt(runes, i))
		}
	}
	return b.String()
}

func titleRune(c rune) string {
	if c < 0x80 {
		return string(unicode.ToUpper(c))
	}
	return cases.Title(language.Und).String(string(c))
}

// lowerAt returns the lower case of the letter at i. A capital sigma that ends a
// word has a form of its own; a dotted capital I becomes two characters.
func lowerAt(runes []rune, i int) string {
	switch c := runes[i]; {
	case c == 'Σ' && endsWord(runes, i):
		return "ς"
	case c == 'İ':
		return "i̇"
	default:
		return string(unicode.ToLower(c))
	}
}

// endsWord reports whether a cased letter comes before i and none after it,
// leaving out of account what may stand between letters.
func endsWord(runes []rune, i int) bool {
	before := i - 1
	for before >= 0 && caseIgnorable(runes[before]) {
		before--
	}
	if before < 0 || !isCased(runes[before]) {
		return false
	}
	after := i + 1
	for after < len(runes) && caseIgnorable(runes[after]) {
		after++
	}
	return after == len(runes) || !isCased(runes[after])
}

func caseIgnorable(c rune) bool {
	return strings.ContainsRune("'.:··՟״‘’․‧︓﹒﹕＇．：", c) ||
		unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

// allCase reports whether s holds cased letters and all are of one case.
func allCase(s string, is func(rune) bool) bool {
	found := false
	for _, c := range s {
		if isCased(c) {
			if !is(c) {
				return false
			}
			found = true
		}
	}
	return found
}

// splitSpace splits at runs of white space, at most limit times if limit is
// not negative.
func splitSpace(s string, limit int) []string {
	var parts []string
	rest := strings.TrimLeftFunc(s, isSpace)
	for rest != "" {
		i := strings.IndexFunc(rest, isSpace)
		if limit >= 0 && len(parts) == limit {
			i = -1 // the last part keeps the white space at its end
		}
		if i < 0 {
			return append(parts, rest)
		}
		parts = append(parts, rest[:i])
		rest = strings.TrimLeftFunc(rest[i:], isSpace)
	}
	return parts
}

// splitLines splits after each line end Python knows. The text after the
// last one is a line only if there is any.
func splitLines(s string, keepEnds bool) []string {
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, isLineEnd)
		if i < 0 {
			return append(lines, s)
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		next := i + size
		if strings.HasPrefix(s[i:], "\r\n") {
			next = i + 2
		}
		if keepEnds {
			lines = append(lines, s[:next])
		} else {
			lines = append(lines, s[:i])
		}
		s = s[next:]
	}
	return lines
}

func isLineEnd(c rune) bool {
	switch c {
	case '\n', '\v', '\f', '\r', 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}
