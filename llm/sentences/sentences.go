// Package sentences compares what English sentences mean, without a network
// and without a model to install. It is the Universal Sentence Encoder Lite:
// a transformer of two layers whose weights, as whole numbers of 8 bits, are
// compiled in.
//
// A program that imports it grows by 8 MB. The first text takes about 5 ms
// more, once; 2 MB of memory are kept for each Embed that runs at the same
// time. A sentence takes about 3 ms of one core where the processor has AVX2,
// about five times that elsewhere.
//
// See NOTICE for where the weights come from and what was changed.
package sentences

import (
	"context"
	_ "embed" // the weights and the vocabulary
	"sync"
)

// Name is the embedder's name. It changes whenever its vectors do.
const Name = "use-lite-int8/1"

// Dimension is the length of every vector, as a list.
const Dimension = width

// MaxTokens is how much of a text is looked at. A word is a token or a few.
const MaxTokens = 128

var (
	//go:embed weights.bin
	weightsFile string
	//go:embed vocabulary.txt
	vocabularyFile string

	loaded = sync.OnceValues(func() (*model, error) { return load(weightsFile, vocabularyFile) })
)

// Embedder is a llm.Embedder that never leaves the machine. The zero value is
// ready; all of them share one set of weights.
type Embedder struct{}

// Name tells this embedder from others.
func (Embedder) Name() string { return Name }

// WorksOffline marks it as one that never leaves the machine.
func (Embedder) WorksOffline() {}

// Embed turns texts into vectors. What comes after MaxTokens tokens of a text
// is not looked at. A text in which no character is known, one in Chinese for
// example, is treated as blank: every such text would be like every other.
//
// A text has the same vector alone and among others, with AVX2 and without;
// on another kind of processor the last digits may differ. Many texts at once
// take less time. The work is done on the caller's goroutine; the only error
// is the context's.
func (Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	m, err := loaded()
	if err != nil {
		return nil, err
	}
	p, ok := m.passes.Get().(*pass)
	if !ok {
		p = newPass(m)
	}
	defer m.passes.Put(p)

	vectors := make([][]float32, len(texts))
	values := make([]float32, len(texts)*Dimension)
	p.reset()
	for i, text := range texts {
		vectors[i] = values[i*Dimension : (i+1)*Dimension : (i+1)*Dimension]
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
