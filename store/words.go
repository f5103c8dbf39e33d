package store

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"

	"github.com/holdfast-dev/holdfast/internal/language"
)

// maxWord is how many bytes of a word count. Longer ones are data rather than
// words, and would only fill an index.
const maxWord = 64

// Words returns the different words of a text, sorted: split as Unicode defines
// words, folded and stemmed, without those that have neither letter, digit nor
// symbol. Two neighbouring characters of a script without spaces are a word, too.
// All stores search by these words, so that all of them find the same.
func Words(text string) []string {
	found := WordsUnsorted(text)
	slices.Sort(found)
	return found
}

// WordsUnsorted returns the same as Words in the order of the text.
func WordsUnsorted(text string) []string {
	found := newWordSet(len(text) / 8)
	previous := "" // a character without spaces around it, just before
	eachWord(text, func(word string) {
		if !spaceless(word) {
			found.add(language.Stem(word))
			previous = ""
			return
		}
		if previous != "" && grammatical(previous) == grammatical(word) {
			found.add(previous + word)
		}
		found.add(word)
		previous = word
	}, func() { previous = "" })
	return found.list
}

// Terms returns the words of a question that are worth searching for: without
// function words, and with pairs instead of single characters of a script
// without spaces. A question of nothing else keeps all its words.
func Terms(question string) []string {
	found := newWordSet(8)
	previous, paired := "", false
	end := func() {
		if previous != "" && !paired && !language.IsFunctionWord(previous) {
			found.add(previous)
		}
		previous, paired = "", false
	}
	eachWord(question, func(word string) {
		switch {
		case !spaceless(word):
			end()
			if !language.IsFunctionWord(word) {
				found.add(language.Stem(word))
			}
		case grammatical(word):
			end()
		case previous == "":
			previous = word
		default:
			found.add(previous + word)
			previous, paired = word, true
		}
	}, end)
	end()
	if len(found.list) == 0 {
		return Words(question)
	}
	slices.Sort(found.list)
	return found.list
}

// wordSet collects different words in their order.
type wordSet struct {
	list []string
	seen map[string]struct{}
}

func newWordSet(size int) *wordSet { return &wordSet{seen: make(map[string]struct{}, size)} }

func (s *wordSet) add(word string) {
	if _, again := s.seen[word]; !again {
		s.seen[word] = struct{}{}
		s.list = append(s.list, word)
	}
}

// eachWord calls word with each folded word of a text, and gap for everything
// between words.
func eachWord(text string, word func(string), gap func()) {
	for parts := words.FromString(language.Fold(text)); parts.Next(); {
		part := parts.Value()
		if len(part) > maxWord {
			part = strings.ToValidUTF8(part[:maxWord], "")
		}
		if strings.ContainsFunc(part, inWord) {
			word(part)
		} else {
			gap()
		}
	}
}

// inWord reports a letter, a digit or a symbol such as an emoji or a currency
// sign. Symbols of ASCII are punctuation.
func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) ||
		r >= utf8.RuneSelf && r != utf8.RuneError && unicode.In(r, unicode.So, unicode.Sc, unicode.Sm) || r == '$'
}

// spaceless reports a character of a script that is written without spaces
// between words.
func spaceless(word string) bool {
	r, size := utf8.DecodeRuneInString(word)
	return size == len(word) && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// grammatical reports a character that mostly stands for endings and particles.
func grammatical(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.Is(unicode.Hiragana, r)
}
