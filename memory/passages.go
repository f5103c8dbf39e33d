package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// passageSize is about how long a passage is, in bytes: a few sentences. A
	// shorter text is one passage.
	passageSize = 240
	// maxPassages is how many passages a text has at most. Those of a very long
	// text are longer.
	maxPassages = 64
)

// Passages cuts a text into passages that are found on their own, so that a fact
// is found wherever it stands in a long text. They end at sentences if possible;
// each begins with the last sentence of the one before.
func Passages(text string) []string {
	if len(text) <= passageSize+passageSize/2 {
		return []string{text}
	}
	size := max(passageSize, 2*len(text)/maxPassages)
	ends := sentenceEnds(text, size/2)
	var passages []string
	for from, i := 0, 0; i < len(ends); {
		last := i
		for last+1 < len(ends) && ends[last+1]-from <= size {
			last++
		}
		if passage := strings.TrimSpace(text[from:ends[last]]); passage != "" {
			passages = append(passages, passage)
		}
		if last == len(ends)-1 {
			break
		}
		if last > i {
			from = ends[last-1] // its last sentence comes again
		} else {
			from = ends[last]
		}
		i = last + 1
	}
	return passages
}

// sentenceEnds are the places after sentences, the end of the text too. A sentence
// that is longer than most is cut between words, or else anywhere.
func sentenceEnds(text string, most int) []int {
	var ends []int
	from, space := 0, 0
	for i, r := range text {
		next := i + utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size := utf8.DecodeRuneInString(text[i:])
			next = i + size
		}
		switch {
		case strings.ContainsRune("。！？\n", r),
			strings.ContainsRune(".!?", r) && (next == len(text) || text[next] == ' ' || text[next] == '\n'):
			ends = append(ends, next)
			from = next
		case next-from > most && space > from:
			ends = append(ends, space)
			from = space
		case next-from > most:
			ends = append(ends, next)
			from = next
		}
		if unicode.IsSpace(r) {
			space = next
		}
	}
	if from < len(text) {
		ends = append(ends, len(text))
	}
	return ends
}
