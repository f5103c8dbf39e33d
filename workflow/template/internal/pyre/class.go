package pyre

import "unicode"

// class is a set of characters, as in [a-z\d].
type class struct {
	ranges     []runeRange
	categories []category
	negated    bool
	ignoreCase bool
	ascii      bool
}

type runeRange struct{ low, high rune }

// category is \d, \w or \s, or what they leave.
type category struct {
	letter  rune // d, w or s
	negated bool
	ascii   bool
}

func (n *class) accepts(c rune) bool { return n.holds(c) != n.negated }

func (n *class) holds(c rune) bool {
	for _, k := range n.categories {
		if k.holds(c) {
			return true
		}
	}
	if n.inRanges(c) {
		return true
	}
	if n.ignoreCase {
		for other := nextCase(c, n.ascii); other != c; other = nextCase(other, n.ascii) {
			if n.inRanges(other) {
				return true
			}
		}
	}
	return false
}

func (n *class) inRanges(c rune) bool {
	for _, r := range n.ranges {
		if r.low <= c && c <= r.high {
			return true
		}
	}
	return false
}

func (k category) holds(c rune) bool {
	var in bool
	switch {
	case k.ascii && c > unicode.MaxASCII:
	case k.letter == 'd':
		in = unicode.Is(unicode.Nd, c)
	case k.letter == 'w':
		in = isWord(c)
	case k.ascii: // \s without the separators U+001C to U+001F
		in = c == ' ' || '\t' <= c && c <= '\r'
	default:
		in = unicode.IsSpace(c) || 0x1C <= c && c <= 0x1F
	}
	return in != k.negated
}

// isWord reports letters, numbers of any kind and the underscore. Marks that
// combine with a letter are not among them.
func isWord(c rune) bool {
	return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c)
}

// nextCase goes round the characters that differ from c in case only. To
// Unicode's simple foldings Python adds the Turkish letters i and three
// ligatures and accented letters.
func nextCase(c rune, ascii bool) rune {
	if ascii {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c ^ 0x20
		}
		return c
	}
	switch c {
	case 'I':
		return 'i'
	case 'i':
		return 'İ'
	case 'İ':
		return 'ı'
	case 'ı':
		return 'I'
	case 'ΐ':
		return 0x1FD3
	case 0x1FD3:
		return 'ΐ'
	case 'ΰ':
		return 0x1FE3
	case 0x1FE3:
		return 'ΰ'
	case 'ﬅ':
		return 'ﬆ'
	case 'ﬆ':
		return 'ﬅ'
	}
	return unicode.SimpleFold(c)
}

// fold is the same for all characters that differ in case only.
func fold(c rune, ascii bool) rune {
	least := c
	for other := nextCase(c, ascii); other != c; other = nextCase(other, ascii) {
		least = min(least, other)
	}
	return least
}

// sameRune compares as backreferences do: by the lower case.
func sameRune(a, b rune, ignoreCase bool) bool {
	return a == b || ignoreCase && lowerCase(a) == lowerCase(b)
}

func lowerCase(c rune) rune {
	if c == 'İ' {
		return 'i'
	}
	return unicode.ToLower(c)
}
