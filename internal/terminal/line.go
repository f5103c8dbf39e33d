package terminal

import (
	"slices"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/mattn/go-runewidth"
)

// line is the text that is edited, in characters as a person sees them: an
// accent or the parts of a flag belong to one.
type line struct {
	characters []string
	at         int // the cursor stands before this one
}

func splitCharacters(text string) []string {
	var all []string
	for it := graphemes.FromString(text); it.Next(); {
		all = append(all, it.Value())
	}
	return all
}

// splitFirst returns the first character of a text.
func splitFirst(text string) string {
	it := graphemes.FromString(text)
	it.Next()
	return it.Value()
}

func (l *line) text() string { return strings.Join(l.characters, "") }

// set replaces the text and leaves the cursor behind it.
func (l *line) set(text string) {
	l.characters = splitCharacters(text)
	l.at = len(l.characters)
}

func (l *line) insert(text string) {
	before, after := l.before()+text, strings.Join(l.characters[l.at:], "")
	l.characters = splitCharacters(before + after)
	l.at = min(len(splitCharacters(before)), len(l.characters))
}

// before returns the text before the cursor.
func (l *line) before() string { return strings.Join(l.characters[:l.at], "") }

// remove takes out the characters from the cursor to another place.
func (l *line) remove(to int) {
	from, to := min(l.at, to), max(l.at, to)
	l.characters = slices.Delete(l.characters, from, to)
	l.at = from
}

func (l *line) moveTo(at int) { l.at = min(max(0, at), len(l.characters)) }

// lineStart and lineEnd are the ends of the line that the cursor is in.
func (l *line) lineStart() int {
	at := l.at
	for at > 0 && l.characters[at-1] != "\n" {
		at--
	}
	return at
}

func (l *line) lineEnd() int {
	if i := slices.Index(l.characters[l.at:], "\n"); i >= 0 {
		return l.at + i
	}
	return len(l.characters)
}

// wordLeft and wordRight are the next ends of a word.
func (l *line) wordLeft() int {
	at := l.at
	for at > 0 && !isWord(l.characters[at-1]) {
		at--
	}
	for at > 0 && isWord(l.characters[at-1]) {
		at--
	}
	return at
}

func (l *line) wordRight() int {
	at := l.at
	for at < len(l.characters) && !isWord(l.characters[at]) {
		at++
	}
	for at < len(l.characters) && isWord(l.characters[at]) {
		at++
	}
	return at
}

func isWord(character string) bool {
	return strings.ContainsFunc(character, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// layout returns the rows of the text behind a prompt, none wider than the
// columns, and where the cursor stands. The last column stays free: writing
// there begins a new line on some terminals.
func (l *line) layout(prompt string, columns int) (rows []string, row, column int) {
	indent := visibleWidth(prompt)
	limit := max(columns-1, indent+2)
	current, wide := prompt, indent
	next := func() {
		rows = append(rows, current)
		current, wide = strings.Repeat(" ", indent), indent
	}
	for i, character := range append(slices.Clone(l.characters), "") {
		shown := strings.ReplaceAll(Printable(character), "\t", "  ")
		width := runewidth.StringWidth(shown)
		if character != "\n" && wide+width > limit && wide > indent {
			next()
		}
		if i == l.at {
			row, column = len(rows), wide
		}
		if character == "\n" {
			next()
			continue
		}
		current, wide = current+shown, wide+width
	}
	return append(rows, current), row, column
}

// visibleWidth returns how many columns a text takes that may have colours.
func visibleWidth(text string) int {
	var b strings.Builder
	for text != "" {
		before, after, found := strings.Cut(text, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		text = after[strings.IndexByte(after, 'm')+1:]
	}
	return runewidth.StringWidth(b.String())
}
