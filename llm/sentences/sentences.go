// Package sentences embeds English sentences without a network and without a
// model to install. It is the Universal Sentence Encoder Lite: a transformer of
// two layers, with 8-bit weights compiled in.
//
// A program that imports it grows by 8 MB. The first text takes about 5 ms
// more; each concurrent Embed uses 2 MB of memory. A sentence takes about 3 ms
// of one core with AVX2, about five times that without.
//
// See NOTICE for where the weights come from and what was changed.
package sentences

import (
	"context"
	_ "embed" // the weights and the vocabulary
	"math"
	"strings"
	"sync"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/language"
)

// Name is the embedder's name. It changes when its vectors change.
const Name = "use-lite-int8/2"

// Dimension is the number of values of every vector.
const Dimension = width

// MaxTokens is how much of a text is read. A word has one or a few tokens.
const MaxTokens = 128

var (
	//go:embed weights.bin
	weightsFile string
	//go:embed vocabulary.txt
	vocabularyFile string

	loaded = sync.OnceValues(func() (*model, error) { return load(weightsFile, vocabularyFile) })
)

// Embedder is an llm.Embedder that needs no network. The zero value is ready; all
// share one set of weights.
type Embedder struct{}

// Name returns the constant Name.
func (Embedder) Name() string { return Name }

// WorksOffline makes the embedder an llm.Offline.
func (Embedder) WorksOffline() {}

// Embed turns texts into vectors. It reads the first MaxTokens tokens of a text.
// A text that is surely not English counts as blank: all such texts would be
// alike.
//
// The vector of a text does not depend on the other texts or on AVX2; on another
// kind of processor the last digits may differ. Many texts in one call take
// less time. The work runs on the caller's goroutine; the only error is the
// context's.
func (Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	m, err := loaded()
	if err != nil {
		return nil, err
	}
	p, ok := m.batches.Get().(*batch)
	if !ok {
		p = newBatch(m)
	}
	defer m.batches.Put(p)

	vectors := make([][]float32, len(texts))
	values := make([]float32, len(texts)*Dimension)
	p.reset()
	for i, text := range texts {
		vectors[i] = values[i*Dimension : (i+1)*Dimension : (i+1)*Dimension]
		if language.Foreign(text) {
			continue
		}
		tokens := p.tokens(text)
		if len(tokens) == 0 {
			continue
		}
		if !p.fits(tokens) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			p.run()
		}
		p.add(tokens, vectors[i])
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.run()
	return vectors, nil
}

// EmbedQuery makes the embedder an llm.QueryEmbedder. The vector of a question is
// between that of the question and that of its content words alone: what the
// question is about counts for more than that it is a question.
func (e Embedder) EmbedQuery(ctx context.Context, question string) ([]float32, error) {
	content := contentWords(question)
	if language.Foreign(question) { // words alone may not tell
		content = ""
	}
	vectors, err := e.Embed(ctx, []string{question, content})
	if err != nil {
		return nil, err
	}
	whole, about := vectors[0], vectors[1]
	square := float32(0)
	for i := range whole {
		whole[i] += about[i]
		square += whole[i] * whole[i]
	}
	if square > 0 {
		length := float32(math.Sqrt(float64(square)))
		for i := range whole {
			whole[i] /= length
		}
	}
	return whole, nil
}

// contentWords are the words of a text that are not function words.
func contentWords(text string) string {
	var kept []string
	for word := range strings.FieldsSeq(text) {
		word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if word != "" && !language.IsFunctionWord(language.Fold(word)) {
			kept = append(kept, strings.ToLower(word))
		}
	}
	return strings.Join(kept, " ")
}
