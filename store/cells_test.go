package store_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// world is an index of vectors in memory, as a store keeps one in tables.
type world struct {
	cells   store.Cells
	stored  []store.Packed // the centres, by the number of their cell
	members map[int64][]store.Packed
	changed int64
}

func (w *world) put(id int64, centre []float32) {
	w.stored[id] = store.Pack(centre)
	w.changed++
	_ = w.cells.Update(w.changed, func(_ int64, put func(int64, store.Packed)) error {
		put(id, w.stored[id])
		return nil
	})
}

func newWorld(dimensions int) *world {
	w := &world{members: map[int64][]store.Packed{}, stored: make([]store.Packed, 2)}
	w.put(1, make([]float32, dimensions))
	return w
}

func (w *world) add(vector []float32) {
	id := w.cells.Nearest(vector)
	w.members[id] = append(w.members[id], store.Pack(vector))
	if len(w.members[id]) <= store.MaxCell {
		return
	}
	var vectors [][]float32
	for _, p := range w.members[id] {
		vectors = append(vectors, p.Unpack())
	}
	first, second, inSecond := store.Split(vectors)
	added, all := int64(len(w.stored)), w.members[id]
	w.members[id], w.stored = nil, append(w.stored, nil)
	for i, p := range all {
		to := id
		if inSecond[i] {
			to = added
		}
		w.members[to] = append(w.members[to], p)
	}
	w.put(id, first)
	w.put(added, second)
}

// near returns the ten best scores among the vectors of the nearest cells, and
// how many vectors were compared.
func (w *world) near(query []float32) (scores []float64, compared int) {
	for _, id := range w.cells.Order(query, w.cells.Enough()/8) {
		if compared >= w.cells.Enough() {
			break
		}
		for _, p := range w.members[id] {
			score, _, _ := p.Score(query)
			scores = append(scores, score)
		}
		compared = len(scores)
	}
	return best(scores), compared
}

func best(scores []float64) []float64 {
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	return scores[:min(10, len(scores))]
}

// about is a random vector near one of some subjects.
func about(random *rand.Rand, dimensions, subjects int) []float32 {
	seed := uint64(random.IntN(subjects))
	subject := rand.New(rand.NewPCG(7, seed)) //nolint:gosec // the same numbers each time
	v, square := make([]float32, dimensions), 0.0
	for i := range v {
		v[i] = float32(subject.NormFloat64() + 0.5*random.NormFloat64())
		square += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(square))
	}
	return v
}

func TestCells_findNearlyAllOfTheNearestAmongAFewVectors(t *testing.T) {
	t.Parallel()
	const dimensions, size, queries = 24, 8_000, 30
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	w := newWorld(dimensions)
	for range size {
		w.add(about(random, dimensions, 200))
	}
	found, most := 0, 0
	for range queries {
		query := about(random, dimensions, 200)
		var all []float64
		for _, members := range w.members {
			for _, p := range members {
				score, _, _ := p.Score(query)
				all = append(all, score)
			}
		}
		if len(all) != size {
			t.Fatalf("%d vectors are in cells, want %d", len(all), size)
		}
		exact := best(all)
		near, compared := w.near(query)
		most = max(most, compared)
		for _, score := range near {
			if score >= exact[9] {
				found++
			}
		}
	}
	if recall := float64(found) / (10 * queries); recall < 0.95 {
		t.Errorf("found %.3f of the nearest, want 0.95", recall)
	}
	if most > size/5 {
		t.Errorf("compared up to %d of %d vectors", most, size)
	}
}

func TestCells_areSplitHoweverAlikeTheirVectorsAre(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	for range 5 * store.MaxCell {
		w.add([]float32{0, 1})
	}
	for id, members := range w.members {
		if len(members) > store.MaxCell {
			t.Errorf("cell %d holds %d vectors", id, len(members))
		}
	}
}

func TestCells_orderAllThatAreAskedFor(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	var cells store.Cells
	const size = 700 // several groups
	err := cells.Update(1, func(_ int64, put func(int64, store.Packed)) error {
		for id := int64(1); id <= size; id++ {
			put(id, store.Pack(about(random, 8, 50)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	order := cells.Order([]float32{1, 0, 0, 0, 0, 0, 0, 0}, size)
	if slices.Sort(order); len(slices.Compact(order)) != size || cells.Len() != size {
		t.Errorf("ordered %d of %d cells", len(order), size)
	}
}

func TestPacked_partsAreTheVectorsThatWerePacked(t *testing.T) {
	t.Parallel()
	for _, vectors := range [][][]float32{{{1, 0, 0}}, {{1, 0}, {0, -1}, {0.6, 0.8}}} {
		packed := store.Pack(vectors[0], vectors[1:]...)
		parts := packed.Parts()
		if len(parts) != len(vectors) || packed.Dimensions() != len(vectors[0]) {
			t.Fatalf("%d parts of %d dimensions, want %d of %d", len(parts), packed.Dimensions(), len(vectors), len(vectors[0]))
		}
		for i, part := range parts {
			if got := fmt.Sprintf("%.2f", part.Unpack()); got != fmt.Sprintf("%.2f", vectors[i]) {
				t.Errorf("part %d is %s, want %.2f", i, got, vectors[i])
			}
		}
	}
	if parts := store.Packed(nil).Parts(); len(parts) != 0 {
		t.Errorf("nothing has %d parts", len(parts))
	}
}

// BenchmarkCells says how many of the ten nearest of many vectors are found in
// the cells near the query, and how many vectors are compared for that. There are
// 500 vectors about each subject.
func BenchmarkCells(b *testing.B) {
	const dimensions = 128
	for _, size := range []int{100_000, 1_000_000} {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
		w := newWorld(dimensions)
		for range size {
			w.add(about(random, dimensions, size/500))
		}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			found, most, asked := 0, 0, 0
			for b.Loop() {
				query := about(random, dimensions, size/500)
				near, compared := w.near(query)
				most = max(most, compared)
				b.StopTimer()
				var all []float64
				for _, members := range w.members {
					for _, p := range members {
						score, _, _ := p.Score(query)
						all = append(all, score)
					}
				}
				exact := best(all)
				for _, score := range near {
					if score >= exact[9] {
						found++
					}
				}
				asked++
				b.StartTimer()
			}
			b.ReportMetric(float64(found)/float64(10*asked), "recall@10")
			b.ReportMetric(float64(most), "compared")
		})
	}
}
