package memory

import (
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// Estimate counts tokens without a tokenizer: those of the texts by their
// characters, four for each message, a thousand for each image, file or sound. It
// rather counts too many than too few: of English and Russian, code, JSON, data in
// hexadecimal or base64, emoji and Chinese, Japanese or Korean at most a tenth too
// few.
func Estimate(m session.Message) int {
	tokens := 4
	for _, p := range m.Content {
		switch p.Type {
		case session.PartImage, session.PartFile, session.PartAudio:
			tokens += 1000
		default:
			tokens += estimateText(p.Text) + estimateText(string(p.Raw))
		}
	}
	for _, c := range m.ToolCalls {
		tokens += estimateText(c.Name) + estimateText(string(c.Arguments))
	}
	if m.ToolResult != nil {
		tokens += estimateText(m.ToolResult.Content)
	}
	return tokens
}

// kind is what characters are alike to a tokenizer. A token has one kind, except
// that a word may have a space before it.
type kind int

const (
	space kind = iota
	lower
	upper
	digit
	mark    // punctuation and symbols of ASCII
	foreign // letters of alphabets other than Latin
	other   // one token and more for each character: emoji and scripts without spaces
)

// asciiKinds are the kinds of the characters that most texts are made of.
var asciiKinds = func() (kinds [utf8.RuneSelf]kind) {
	for r := range kinds {
		kinds[r] = kindOf(rune(r))
	}
	return kinds
}()

func kindOf(r rune) kind {
	switch {
	case r >= 'a' && r <= 'z':
		return lower
	case r >= 'A' && r <= 'Z':
		return upper
	case r >= '0' && r <= '9':
		return digit
	case r == ' ' || r == '\n' || r == '\t' || r == '\r':
		return space
	case r < utf8.RuneSelf:
		return mark
	case unicode.In(r, unicode.Latin, unicode.Cyrillic, unicode.Greek):
		return foreign
	}
	return other
}

// estimateText adds up the tokens of runs of characters of one kind. A text has at
// least one token for four bytes.
func estimateText(text string) int {
	tenths := 0
	var at run
	for _, r := range text {
		var next kind
		if r < utf8.RuneSelf {
			next = asciiKinds[r]
		} else {
			next = kindOf(r)
		}
		if next == lower && at.kind == upper && at.length == 1 {
			at.kind, at.capital = lower, true
		}
		if next != at.kind {
			tenths += at.tenths()
			at = run{kind: next, glued: at.kind == lower || at.kind == upper || at.kind == digit}
		}
		at.length++
		if next == other && r > 0xffff { // most emoji have three tokens
			at.length += 2
		}
	}
	return max((tenths+at.tenths()+9)/10, (len(text)+3)/4)
}

// run is characters of one kind in a row.
type run struct {
	kind    kind
	length  int
	capital bool // a capital and small letters
	glued   bool // right after a letter or a digit of another kind
}

// tenths is how many tenths of a token a run has. Few tokenizers split a common
// word; letters that follow others of another kind are rather data than a word.
func (r run) tenths() int {
	switch {
	case r.kind == space && r.length < 2: // it belongs to the word after it
		return 0
	case r.kind == space:
		return 10
	case r.kind == lower && r.glued && r.capital && r.length < 4:
		return 20
	case r.kind == lower && r.glued:
		return 10 * (1 + r.length/4)
	case r.kind == lower:
		return 10 * (1 + r.length/8)
	case r.kind == upper && r.glued:
		return 10 * ((r.length + 1) / 2)
	case r.kind == upper, r.kind == digit:
		return 10 * ((r.length + 2) / 3)
	case r.kind == mark:
		return 10 * ((r.length + 1) / 2)
	case r.kind == foreign:
		return max(10, 7*r.length)
	}
	return 12 * r.length
}
