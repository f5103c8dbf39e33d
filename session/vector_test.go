package session

import (
	"math"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
)

func elements(v vector[int]) []int {
	var items []int
	for i, x := range v.all() {
		if x != v.at(i) || i != len(items) {
			panic("all and at disagree")
		}
		items = append(items, x)
	}
	return items
}

// TestVector_isASliceThatBranches keeps every vector ever made beside a slice
// of its own and appends to any of them.
func TestVector_isASliceThatBranches(t *testing.T) {
	t.Parallel()
	sizes := property.OneOf(property.IntRange(0, 100), property.SampledFrom([]int{31, 32, 33, 1023, 1024, 1025, 1055, 1056, 1057}), property.Just(32*1024+40))
	property.CheckCases(t, 25, func(t *property.T) {
		first := make([]int, sizes.Draw(t, "size"))
		for i := range first {
			first[i] = i
		}
		vectors, slicesOf := []vector[int]{vectorOf(first)}, [][]int{slices.Clone(first)}
		for i := range first {
			first[i] = -1 // the vector has a copy
		}
		for range t.Repeat(0, 10) {
			which := property.IntRange(0, len(vectors)-1).Draw(t, "which")
			v, s := vectors[which], slices.Clone(slicesOf[which])
			for range t.Repeat(1, 70) {
				x := property.IntRange(math.MinInt, math.MaxInt).Draw(t, "x")
				v, s = v.append(x), append(s, x)
			}
			vectors, slicesOf = append(vectors, v), append(slicesOf, s)
		}
		for i, v := range vectors {
			if v.len() != len(slicesOf[i]) || !slices.Equal(elements(v), slicesOf[i]) {
				t.Fatalf("vector %d of %d elements differs", i, v.len())
			}
		}
	})
}

func TestVector_iterationStopsWhenAsked(t *testing.T) {
	t.Parallel()
	seen := 0
	for i := range vectorOf(make([]int, 100)).all() {
		if seen++; i == 41 {
			break
		}
	}
	if seen != 42 {
		t.Errorf("%d elements seen", seen)
	}
}

func TestSpans_cutAndClip(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 25, func(t *property.T) {
		spans := []Span{{From: 1}}
		in := func(seq int64) bool { return true }
		for range t.Repeat(0, 4) {
			from := property.Int64Range(1, 20).Draw(t, "from")
			to := property.Int64Range(from, 24).Draw(t, "to")
			before := in
			if property.Bool().Draw(t, "cut") {
				spans = cut(spans, from, to)
				in = func(seq int64) bool { return before(seq) && (seq < from || seq > to) }
			} else {
				spans = append(clip(spans, from), Span{From: to + 1})
				in = func(seq int64) bool { return seq <= from && before(seq) || seq > to }
			}
			if err := checkSpans(spans); err != nil {
				t.Fatalf("%v: %v", spans, err)
			}
		}
		for seq := int64(1); seq < 40; seq++ {
			if Holds(spans, seq) != in(seq) {
				t.Fatalf("%v holds %d: %t", spans, seq, !in(seq))
			}
		}
	})
}
