package sentences

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	unknown  = 0   // the token for unknown characters
	reserved = 6   // the first tokens, which do not occur in texts
	boundary = "▁" // starts a word; never inside a piece
)

// maxText is the most bytes to read of a text: far more than MaxTokens tokens
// need, unless most of it is blank or unknown.
const maxText = 32 << 10

// vocabulary holds the pieces of words and their probabilities.
type vocabulary struct {
	pieces []piece     // sorted by text
	first  [257]uint16 // where the pieces of each first byte begin
	blank  uint16      // the token of a boundary alone
}

type piece struct {
	text  string
	token uint16
	score float64 // logarithm of a probability
}

// newVocabulary reads one piece for each line: its score, a space, its text.
func newVocabulary(file string) (*vocabulary, error) {
	v := &vocabulary{pieces: make([]piece, 0, pieces)}
	number := 0
	for line := range strings.Lines(file) {
		score, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		value, err := strconv.ParseFloat(score, 64)
		if !ok || err != nil || text == "" {
			return nil, fmt.Errorf("line %d of the vocabulary cannot be read", number+1)
		}
		if number >= reserved {
			v.pieces = append(v.pieces, piece{text: text, token: uint16(number), score: value})
		}
		if text == boundary {
			v.blank = uint16(number)
		}
		number++
	}
	if number != pieces || v.blank == 0 {
		return nil, fmt.Errorf("the vocabulary has %d pieces, not %d", number, pieces)
	}
	// Of duplicate pieces the last one counts.
	slices.SortFunc(v.pieces, func(a, b piece) int {
		return cmp.Or(strings.Compare(a.text, b.text), cmp.Compare(b.token, a.token))
	})
	v.pieces = slices.CompactFunc(v.pieces, func(a, b piece) bool { return a.text == b.text })
	for b := range v.first {
		v.first[b] = uint16(sort.Search(len(v.pieces), func(i int) bool { return int(v.pieces[i].text[0]) >= b }))
	}
	return v, nil
}

// tokenizer cuts texts into tokens and reuses its memory.
type tokenizer struct {
	vocabulary *vocabulary
	tokens     []uint16
	best       []cutSoFar // by position in the word
}

// cutSoFar is the most probable way to cut a word up to some position.
type cutSoFar struct {
	score float64
	from  int // where its last piece starts
	token uint16
}

// tokenize returns the first MaxTokens tokens of a text; none if no piece is
// known. They are valid until the next call.
func (c *tokenizer) tokenize(text string) []uint16 {
	if len(text) > maxText {
		text = text[:maxText]
	}
	text = norm.NFKC.String(text)
	c.tokens = c.tokens[:0]
	known := false
	for word := range strings.FieldsSeq(text) {
		start := len(c.tokens)
		c.addWord(boundary + word)
		for _, token := range c.tokens[start:] {
			known = known || token != unknown && token != c.vocabulary.blank
		}
		if len(c.tokens) >= MaxTokens {
			break
		}
	}
	if !known {
		return nil
	}
	return c.tokens[:min(len(c.tokens), MaxTokens)]
}

// addWord adds the most probable tokens of one word. No piece spans two words.
func (c *tokenizer) addWord(word string) {
	c.best = slices.Grow(c.best[:0], len(word)+1)[:len(word)+1]
	for i := range c.best {
		c.best[i].score = math.Inf(-1)
	}
	c.best[0].score = 0
	for at := range word {
		if math.IsInf(c.best[at].score, -1) {
			continue // no piece ends here
		}
		if !c.tryPieces(word, at) {
			_, size := utf8.DecodeRuneInString(word[at:])
			c.offer(at, at+size, unknown, 0)
		}
	}
	start := len(c.tokens)
	for at := len(word); at > 0; at = c.best[at].from {
		// Several unknown characters in a row are one token.
		if n := len(c.tokens); c.best[at].token != unknown || n == start || c.tokens[n-1] != unknown {
			c.tokens = append(c.tokens, c.best[at].token)
		}
	}
	slices.Reverse(c.tokens[start:])
}

// tryPieces offers all pieces at the start of word[at:] and reports whether there
// are any.
func (c *tokenizer) tryPieces(word string, at int) (found bool) {
	v := c.vocabulary
	low, high := int(v.first[word[at]]), int(v.first[int(word[at])+1])
	for n := 1; low < high; n++ { // the pieces from low to high begin with word[at:at+n]
		if p := v.pieces[low]; len(p.text) == n {
			c.offer(at, at+n, p.token, p.score)
			found = true
			low++
		}
		if at+n == len(word) {
			break
		}
		next, all := word[at+n], v.pieces[low:high]
		high = low + sort.Search(len(all), func(i int) bool { return all[i].text[n] > next })
		low += sort.Search(len(all), func(i int) bool { return all[i].text[n] >= next })
	}
	return found
}

// offer records a way to cut the word up to to, if it is the best so far. Of
// equals the last one wins, as in the published tokenizer.
func (c *tokenizer) offer(from, to int, token uint16, score float64) {
	if score += c.best[from].score; score >= c.best[to].score {
		c.best[to] = cutSoFar{score: score, from: from, token: token}
	}
}
