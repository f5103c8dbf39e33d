package sentences

import (
	_ "embed" // the direction
	"math"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/language"
	"github.com/holdfast-dev/holdfast/llm"
)

// toldFile holds a direction of Dimension numbers and an offset. A test fits it to
// testdata/told.txt.
//
//go:embed told.bin
var toldFile string

var toldDirection = sync.OnceValue(func() []float32 {
	r := reader{left: toldFile}
	return r.floats(Dimension + 1)
})

// told says whether the answer to a question was probably told in a conversation
// ("When is the plumber coming?"), by the vector of the question: about 1 if so,
// about -1 if it is a question about the world or a task.
func told(question []float32) float64 {
	direction := toldDirection()
	sum := direction[Dimension]
	for i, v := range question {
		sum += v * direction[i]
	}
	return float64(sum)
}

// The cosines that a question and a text that does not answer it hardly reach.
const (
	unrelatedPersonal = 0.25 // of a question about those who speak
	unrelatedLeast    = 0.30 // of others, the more probably their answer was told
	unrelatedMost     = 0.55
	unrelatedMiddle   = 0.42
	unrelatedByTold   = 0.2
)

// Calibration makes the embedder an llm.Calibrated. A question whose answer was
// probably told needs less similarity to it than another. The numbers were chosen
// by the English questions of the benchmark of recall.
func (Embedder) Calibration(question string, vector []float32) llm.Calibration {
	unrelated := unrelatedPersonal
	if !language.Personal(question) {
		unrelated = math.Min(math.Max(unrelatedMiddle-unrelatedByTold*told(vector), unrelatedLeast), unrelatedMost)
	}
	return llm.Calibration{Unrelated: unrelated, Related: 0.85}
}
