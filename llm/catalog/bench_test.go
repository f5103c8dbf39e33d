package catalog_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/llm/catalog"
)

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := catalog.New(catalog.Config{Environ: []string{}}); err != nil {
			b.Fatal(err)
		}
	}
}
