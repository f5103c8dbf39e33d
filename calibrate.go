package holdfast

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/store"
)

// samples are questions and their answers, from which the cosines of an unknown
// embedder are measured.
var samples = [][2]string{
	{"Where did I put the keys?", "Your keys are on the kitchen table."},
	{"When does the train leave?", "The departure of the train is at nine."},
	{"What should I cook tonight?", "How about soup for dinner this evening?"},
	{"Who repairs our bicycle?", "The shop at the corner mends bikes."},
	{"Why did the build fail?", "The compiler reported an error in the parser."},
	{"How is the weather in Oslo?", "It is snowing in the capital of Norway."},
	{"Which doctor treats my back?", "For the spine you see the orthopaedist."},
	{"What colour is the new car?", "They bought a red automobile."},
	{"How much was the invoice?", "The bill came to four hundred euros."},
	{"Does she play an instrument?", "She practises the piano every day."},
}

// uncalibrated is for an embedder that cannot be measured: its cosines are scores.
var uncalibrated = llm.Calibration{Unrelated: 0.5, Related: 1}

// calibration says what the embedder's cosines with a question mean. What it does
// not say itself is measured, once.
func (rt *Runtime) calibration(ctx context.Context, question string, vector []float32) (llm.Calibration, error) {
	if c, ok := rt.config.Embedder.(llm.Calibrated); ok {
		return c.Calibration(question, vector), nil
	}
	rt.embedding.mu.Lock()
	known := rt.embedding.calibrated
	rt.embedding.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var texts []string
	for _, s := range samples {
		texts = append(texts, s[0], s[1])
	}
	vectors, err := rt.callEmbedder(ctx, texts)
	if err != nil {
		return llm.Calibration{}, err
	}
	measured := measureCosines(vectors)
	rt.embedding.mu.Lock()
	rt.embedding.calibrated = &measured
	rt.embedding.mu.Unlock()
	return measured, nil
}

// measureCosines calibrates by the vectors of the samples: what a question has in
// common with its answer, and at most with the answer of another.
func measureCosines(vectors [][]float32) llm.Calibration {
	var related, unrelated []float64
	for i := range samples {
		question, other := vectors[2*i], 0.0
		if question == nil || vectors[2*i+1] == nil {
			return uncalibrated
		}
		for j := range samples {
			if cosine := store.Cosine(question, vectors[2*j+1]); j == i {
				related = append(related, cosine)
			} else {
				other = max(other, cosine)
			}
		}
		unrelated = append(unrelated, other)
	}
	slices.Sort(related)
	slices.Sort(unrelated)
	last := len(samples) - 1
	begin := unrelated[last-1] // one of ten may be an accident
	return llm.Calibration{Unrelated: begin, Related: max(related[last-1], begin+0.1)}
}
