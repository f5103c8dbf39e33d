package holdfast

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/store"
)

// finding is something that may be a hit, with what is known of it so far.
type finding struct {
	memory.Hit
	meaning float64 // score by meaning; 0: not near, or not embedded
	part    int     // the passage that is nearest
	words   float64 // score by words
}

// terms are the words of a query and how much each counts.
type terms struct {
	words  []string // sorted
	weight map[string]float64
	total  float64
}

// nameWeight is how much a name or a number counts: whoever asks for one means
// exactly that.
const nameWeight = 3

func termsOf(query string) terms {
	t := terms{words: store.Terms(query), weight: map[string]float64{}}
	for _, word := range t.words {
		t.weight[word] = 1
	}
	for i, word := range strings.Fields(query) {
		first, _ := utf8.DecodeRuneInString(word)
		if strings.ContainsFunc(word, unicode.IsDigit) || i > 0 && unicode.IsUpper(first) {
			for _, name := range store.Terms(word) {
				if t.weight[name] > 0 {
					t.weight[name] = nameWeight
				}
			}
		}
	}
	for _, word := range t.words {
		t.total += t.weight[word]
	}
	return t
}

// share is the share of the terms that a text has, and which they are.
func (t terms) share(text string) (float64, []string) {
	have := store.Words(text)
	var found []string
	sum := 0.0
	for _, word := range t.words {
		if _, ok := slices.BinarySearch(have, word); ok {
			found = append(found, word)
			sum += t.weight[word]
		}
	}
	return sum / t.total, found
}

// match compares the words of a finding and says which passage of it fits best:
// by words, or where none has any, by meaning.
func (f *finding) match(t terms) {
	passages := memory.Passages(f.Text)
	best := min(f.part, len(passages)-1)
	for i, passage := range passages {
		text := passage
		if f.Key != "" {
			text = f.Key + "\n" + text
		}
		if share, found := t.share(text); share > f.words {
			f.words, f.Match.Words = share, found
			if f.meaning == 0 {
				best = i
			}
		}
	}
	if len(passages) > 1 {
		f.Match.Passage = passages[best]
	}
	f.Match.Meaning = f.meaning
}

// bothAdd is how much the weaker kind of evidence adds to the stronger one.
const bothAdd = 0.1

// score is the score in a mode. Where both kinds of evidence speak for a
// finding, it counts for more than by either.
func (f *finding) score(mode memory.Mode) float64 {
	switch mode {
	case memory.Keyword:
		return f.words
	case memory.Semantic:
		return f.meaning
	}
	best := max(f.meaning, f.words)
	if best >= memory.DefaultThreshold {
		best = min(1, best+bothAdd*min(f.meaning, f.words))
	}
	return best
}
