package store

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
)

// maxWord is how many bytes of a word count. Longer ones are data rather than
// words, and would only fill an index.
const maxWord = 64

// Words returns the different words of a text, sorted: split as Unicode defines
// words, with case folded, without those that have neither letter nor digit. All
// stores search by these words, so that all of them find the same.
func Words(text string) []string {
	found := WordsUnsorted(text)
	slices.Sort(found)
	return found
}

// WordsUnsorted returns the same as Words in the order of the text.
func WordsUnsorted(text string) []string {
	var found []string
	seen := make(map[string]struct{}, len(text)/8)
	for parts := words.FromString(folded(text)); parts.Next(); {
		word := parts.Value()
		if len(word) > maxWord {
			word = strings.ToValidUTF8(word[:maxWord], "")
		}
		if !strings.ContainsFunc(word, inWord) {
			continue
		}
		if _, again := seen[word]; !again {
			seen[word] = struct{}{}
			found = append(found, word)
		}
	}
	return found
}

// folded returns a text with its case folded. ASCII text, which is most of it,
// is folded several times faster.
func folded(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return cases.Fold().String(strings.ToValidUTF8(text, "\ufffd"))
		}
	}
	return strings.ToLower(text)
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
