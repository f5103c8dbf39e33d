package store_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// direction is a random vector of length 1.
// Of several vectors the nearest counts, and its number is known.
func TestPack_severalVectors(t *testing.T) {
	p := store.Pack([]float32{1, 0}, []float32{0, 1}, []float32{1}, []float32{0.6, 0.8})
	for part, asked := range [][]float32{{1, 0}, {0, 1}, {0.6, 0.8}} {
		if score, got, ok := p.Score(asked); !ok || got != part || score < 0.99 {
			t.Errorf("%v: %f of part %d, %t", asked, score, got, ok)
		}
	}
	for _, asked := range [][]float32{nil, {1}, {1, 0, 0}, make([]float32, len(p)-4)} {
		if _, _, ok := p.Score(asked); ok {
			t.Errorf("compared with %d dimensions", len(asked))
		}
	}
	if _, _, ok := p[:len(p)-1].Score([]float32{1, 0}); ok {
		t.Error("what is cut off is compared")
	}
}

func direction(random *rand.Rand, dimensions int) []float32 {
	v, sum := make([]float64, dimensions), 0.0
	for i := range v {
		v[i] = random.NormFloat64()
		sum += v[i] * v[i]
	}
	unit := make([]float32, dimensions)
	for i := range v {
		unit[i] = float32(v[i] / math.Sqrt(sum))
	}
	return unit
}

func TestPack_hardlyAltersAScore(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	for _, dimensions := range []int{1, 2, 3, 5, 384, 512, 1536, 8192} {
		for range 200 {
			a, b := direction(random, dimensions), direction(random, dimensions)
			for i := range b { // from nothing in common to the same
				b[i] = a[i]*0.7 + b[i]*0.3
			}
			for _, other := range [][]float32{a, b} {
				score, _, ok := store.Pack(a).Score(other)
				if exact := store.Cosine(a, other); !ok || math.Abs(score-exact) > 0.005 {
					t.Fatalf("%d dimensions: score %v (%t), the cosine is %v", dimensions, score, ok, exact)
				}
			}
		}
	}
	if n := len(store.Pack(direction(random, 512))); n != 516 {
		t.Errorf("512 dimensions are packed in %d bytes", n)
	}
}

func TestPack_oddVectors(t *testing.T) {
	t.Parallel()
	if p := store.Pack(nil); p != nil {
		t.Errorf("nothing is packed as %v", p)
	}
	for what, c := range map[string]struct {
		kept  store.Packed
		asked []float32
		ok    bool
		score float64
	}{
		"none kept":        {nil, []float32{1}, false, 0},
		"none asked for":   {store.Pack([]float32{1}), nil, false, 0},
		"nothing at all":   {nil, nil, false, 0},
		"a scale alone":    {store.Packed{0, 0, 0, 0}, nil, false, 0},
		"other dimensions": {store.Pack([]float32{1, 0}), []float32{1}, false, 0},
		"zeros":            {store.Pack([]float32{0, 0}), []float32{1, 0}, true, 0},
		"away from it":     {store.Pack([]float32{-1, 0}), []float32{1, 0}, true, 0},
		"across it":        {store.Pack([]float32{0, -1}), []float32{1, 0}, true, 0},
		"longer than 1":    {store.Pack([]float32{4, 0}), []float32{1, 0}, true, 1},
	} {
		if score, _, ok := c.kept.Score(c.asked); ok != c.ok || score != c.score {
			t.Errorf("%s: score %v, %t; want %v, %t", what, score, ok, c.score, c.ok)
		}
	}
}

func TestNearest_keepsTheBestInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same numbers each time
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for limit := 1; limit <= 40; limit += 3 {
		q, err := store.Near{Search: store.Search{User: "ann", Limit: limit}, Embedder: "e", Vector: []float32{1}, Least: 0.2}.Check()
		if err != nil {
			t.Fatal(err)
		}
		best := q.Nearest()
		var all []store.Passage
		for i := range 100 {
			p := store.Passage{SessionID: fmt.Sprint(i % 3), Seq: int64(i), Score: float64(random.IntN(10)) / 10, At: noon.Add(time.Duration(random.IntN(5)) * time.Hour)}
			best.Add(p)
			if p.Score >= 0.2 {
				all = append(all, p)
			}
		}
		if have, want := best.Best(), q.Rank(all); !slices.Equal(have, want) {
			t.Errorf("the best %d are\n%+v, want\n%+v", limit, have, want)
		}
	}
}

func TestNear_badQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	good := store.Near{Search: store.Search{User: "ann"}, Embedder: "e", Vector: []float32{1}}
	if q, err := good.Check(); err != nil || q.Limit != 50 || len(q.Words) != 0 {
		t.Errorf("a good question: %+v, %v", q, err)
	}
	for what, spoil := range map[string]func(*store.Near){
		"no embedder":   func(q *store.Near) { q.Embedder = "" },
		"no vector":     func(q *store.Near) { q.Vector = nil },
		"a long vector": func(q *store.Near) { q.Vector = make([]float32, 8193) },
		"not a number":  func(q *store.Near) { q.Vector = []float32{float32(math.NaN())} },
		"least 1.1":     func(q *store.Near) { q.Least = 1.1 },
		"no place":      func(q *store.Near) { q.User = "" },
	} {
		q := good
		spoil(&q)
		if _, err := q.Check(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v, want InvalidError", what, err)
		}
	}
}

func BenchmarkPacked_score(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same numbers each time
	packed, asked := store.Pack(direction(random, 512)), direction(random, 512)
	for b.Loop() {
		packed.Score(asked)
	}
}
