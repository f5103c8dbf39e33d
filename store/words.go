package store

import (
	"slices"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
)

// maxWord is how much of a word counts, in bytes: what is longer is no word
// but data, and would only fill an index.
const maxWord = 64

// Words are the different words of a text, sorted: as Unicode parts them, with
// case folded, without those that have neither letter nor digit. Every store
// searches by these and no others, so that all of them find the same.
func Words(text string) []string {
	var found []string
	folded := cases.Fold().String(strings.ToValidUTF8(text, "\ufffd"))
	for parts := words.FromString(folded); parts.Next(); {
		word := parts.Value()
		if len(word) > maxWord {
			word = strings.ToValidUTF8(word[:maxWord], "")
		}
		if strings.ContainsFunc(word, inWord) {
			found = append(found, word)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
