// Package language knows about words what a search needs: which spellings are
// the same word, which words carry no meaning of their own, and whether a text
// is English.
package language

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/russian"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold returns a text in one spelling: case, width, composed characters and the
// different apostrophes are folded, and Latin, Greek and Cyrillic letters lose
// their accents. The folded text has the same words in the same order.
func Fold(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return foldUnicode(text)
		}
	}
	return strings.ToLower(text) // most texts, several times faster
}

func foldUnicode(text string) string {
	text = cases.Fold().String(norm.NFKD.String(strings.ToValidUTF8(text, "\ufffd")))
	var b strings.Builder
	b.Grow(len(text))
	bare := false // the last letter is of a script that is read without accents
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Mn, r) && bare, r == '\ufe0f': // an accent, or how an emoji is drawn
			continue
		case r == '’' || r == 'ʼ' || r == '‘':
			r = '\''
		case !unicode.Is(unicode.Mn, r):
			bare = unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
		}
		b.WriteRune(r)
	}
	return norm.NFC.String(b.String())
}

// Stem returns the stem of a folded word, the same for its inflected forms. Words
// in Latin letters are stemmed as English ones, because a single word does not
// tell its language; words in Cyrillic letters as Russian ones. A word with
// anything else than letters, a name or a number for example, is its own stem.
func Stem(word string) string {
	if len(word) < 4 {
		return word
	}
	latin, cyrillic := true, true
	for _, r := range word {
		latin = latin && (r >= 'a' && r <= 'z' || r == '\'')
		cyrillic = cyrillic && unicode.Is(unicode.Cyrillic, r)
	}
	if !latin && !cyrillic {
		return word
	}
	env := snowballstem.NewEnv(word)
	if latin {
		english.Stem(env)
	} else {
		russian.Stem(env)
	}
	if stem := env.Current(); stem != "" {
		return stem
	}
	return word
}

// Foreign reports whether a text is surely not English: most of its letters are
// of another script, or another language has more function words in it.
func Foreign(text string) bool {
	latin, other := 0, 0
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r):
		case unicode.Is(unicode.Latin, r):
			latin++
		default:
			other++
		}
	}
	if other > latin {
		return true
	}
	counts := map[string]int{}
	for _, word := range split(text) {
		for _, language := range functionWords[word] {
			counts[language]++
		}
	}
	for language, n := range counts {
		if language != "en" && n > counts["en"] {
			return true
		}
	}
	return false
}

// Personal reports whether a text speaks of those who take part in the
// conversation, as in "my" and "we".
func Personal(text string) bool {
	for _, word := range split(text) {
		if personalWords[word] {
			return true
		}
	}
	return false
}

// IsFunctionWord reports whether a folded word has hardly a meaning of its own,
// as articles, pronouns and question words of some languages.
func IsFunctionWord(word string) bool { return functionWords[word] != nil }

// split returns the folded words of a text, cut at everything but letters.
func split(text string) []string {
	return strings.FieldsFunc(Fold(text), func(r rune) bool { return !unicode.IsLetter(r) })
}
