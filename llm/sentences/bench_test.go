package sentences_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/sentences"
)

// BenchmarkEmbed is a text of some length, alone and among others. The metric
// is for one text.
func BenchmarkEmbed(b *testing.B) {
	short := "The invoice of 14 March has not been paid yet."
	for _, c := range []struct {
		name  string
		texts []string
	}{
		{"sentence", []string{short}},
		{"batch", slices.Repeat([]string{short}, 32)},
		{"longest", []string{strings.Repeat(short+" ", 12)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (sentences.Embedder{}).Embed(b.Context(), c.texts); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(c.texts)), "µs/text")
		})
	}
}

// BenchmarkLoad is what the first text takes more.
func BenchmarkLoad(b *testing.B) {
	weights, vocabulary := sentences.Files()
	for b.Loop() {
		if err := sentences.Load(weights, vocabulary); err != nil {
			b.Fatal(err)
		}
	}
}
