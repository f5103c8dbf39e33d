package sentences_test

import (
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/sentences"
)

var _ llm.Calibrated = sentences.Embedder{}

// The direction is a ridge regression on the questions of testdata/told.txt: 1 for
// those whose answer is told, -1 for the others. HOLDFAST_UPDATE=1 writes it.
func TestToldDirection_isFittedToTheQuestions(t *testing.T) {
	t.Parallel()
	vectors, told := toldQuestions(t)
	want := fit(vectors, told, 1)
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		var file []byte
		for _, v := range want {
			file = binary.LittleEndian.AppendUint32(file, math.Float32bits(v))
		}
		if err := os.WriteFile("told.bin", file, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := sentences.ToldDirection()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 0.01 {
			t.Fatalf("number %d is %f, want %f; run: HOLDFAST_UPDATE=1 go test ./llm/sentences -run TestToldDirection", i, got[i], want[i])
		}
	}
}

// Questions that are not among those of the direction.
func TestCalibration_aQuestionWhoseAnswerWasToldNeedsLessSimilarity(t *testing.T) {
	t.Parallel()
	for told, world := range map[string]string{
		"When is the electrician coming?":     "How do whales sleep?",
		"What did the accountant say?":        "What is a logarithm?",
		"Where is my passport?":               "Where is Patagonia?",
		"Which laptop was ordered for Maria?": "Which mammals lay eggs?",
	} {
		if a, b := unrelated(t, told), unrelated(t, world); a >= b {
			t.Errorf("%q needs %.3f, %q %.3f", told, a, world, b)
		}
	}
}

func unrelated(t *testing.T, question string) float64 {
	t.Helper()
	vector, err := sentences.Embedder{}.EmbedQuery(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	c := sentences.Embedder{}.Calibration(question, vector)
	if c.Unrelated <= 0 || c.Unrelated >= c.Related || c.Related >= 1 {
		t.Errorf("%q: %+v", question, c)
	}
	return c.Unrelated
}

// toldQuestions returns the vectors of the questions, and 1 or -1 for each.
func toldQuestions(t *testing.T) (vectors [][]float32, told []float64) {
	t.Helper()
	file, err := os.ReadFile("testdata/told.txt")
	if err != nil {
		t.Fatal(err)
	}
	sign := 0.0
	for line := range strings.Lines(string(file)) {
		switch line = strings.TrimSpace(line); {
		case line == "== told":
			sign = 1
		case line == "== not told":
			sign = -1
		case line != "" && !strings.HasPrefix(line, "#"):
			v, err := sentences.Embedder{}.EmbedQuery(t.Context(), line)
			if err != nil {
				t.Fatal(err)
			}
			vectors, told = append(vectors, v), append(told, sign)
		}
	}
	if len(vectors) < 100 {
		t.Fatalf("only %d questions", len(vectors))
	}
	return vectors, told
}

// fit solves the ridge regression of the values by the vectors, in its dual form.
// The last number of the result is the offset.
func fit(vectors [][]float32, values []float64, ridge float64) []float32 {
	n := len(vectors)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, n+1)
		for j := range n {
			rows[i][j] = product(vectors[i], vectors[j]) + 1
		}
		rows[i][i] += ridge
		rows[i][n] = values[i]
	}
	for i := range rows { // Gauss and Jordan; the matrix is positive definite
		for j := range rows {
			if j == i {
				continue
			}
			by := rows[j][i] / rows[i][i]
			for k := i; k <= n; k++ {
				rows[j][k] -= by * rows[i][k]
			}
		}
	}
	result := make([]float64, len(vectors[0])+1)
	for i, row := range rows {
		weight := row[n] / row[i]
		for k, v := range vectors[i] {
			result[k] += weight * float64(v)
		}
		result[len(result)-1] += weight
	}
	short := make([]float32, len(result))
	for i, v := range result {
		short[i] = float32(v)
	}
	return short
}
