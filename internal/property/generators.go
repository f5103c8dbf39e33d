package property

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Generator makes random values.
type Generator[V any] func(*T) V

// Draw returns a value. A failed case shows it with the label.
func (g Generator[V]) Draw(t *T, label string) V {
	t.Helper()
	t.drawing++
	v := g(t)
	if t.drawing--; t.drawing == 0 {
		t.Logf("%s: %#v", label, v)
	}
	return v
}

// Custom makes values with a function.
func Custom[V any](draw func(*T) V) Generator[V] { return draw }

// Just makes one value.
func Just[V any](v V) Generator[V] { return func(*T) V { return v } }

// Map makes values from other values.
func Map[V, W any](g Generator[V], f func(V) W) Generator[W] {
	return func(t *T) W { return f(g(t)) }
}

// OneOf uses one of the generators; the first is the simplest.
func OneOf[V any](all ...Generator[V]) Generator[V] {
	return func(t *T) V { return SampledFrom(all)(t)(t) }
}

// SampledFrom makes one of the values; the first is the simplest.
func SampledFrom[V any](all []V) Generator[V] {
	return func(t *T) V {
		return all[t.choose(uint64(len(all)-1), func(r *rand.Rand) uint64 { return r.Uint64N(uint64(len(all))) })]
	}
}

// Bool makes truth values.
func Bool() Generator[bool] { return SampledFrom([]bool{false, true}) }

// upTo makes numbers from 0 to most, more often small ones and the limit.
func upTo(t *T, most uint64) uint64 {
	return t.choose(most, func(r *rand.Rand) uint64 {
		width := r.IntN(bits.Len64(most) + 1)
		switch v := r.Uint64() >> (64 - width); {
		case r.IntN(16) == 0:
			return most
		case v <= most && r.IntN(4) > 0:
			return v
		case most == math.MaxUint64:
			return r.Uint64()
		}
		return r.Uint64N(most + 1)
	})
}

// Int64Range makes numbers from least to most; the one closest to zero is the
// simplest.
func Int64Range(least, most int64) Generator[int64] {
	if least > most {
		panic(fmt.Sprintf("property: no number is from %d to %d", least, most))
	}
	return func(t *T) int64 {
		switch {
		case least >= 0:
			return least + int64(upTo(t, uint64(most-least)))
		case most <= 0:
			return most - int64(upTo(t, uint64(most)-uint64(least)))
		case Bool()(t):
			return -int64(upTo(t, -uint64(least)))
		}
		return int64(upTo(t, uint64(most)))
	}
}

// IntRange makes numbers from least to most.
func IntRange(least, most int) Generator[int] {
	return Map(Int64Range(int64(least), int64(most)), func(n int64) int { return int(n) })
}

// Int64 makes any number.
func Int64() Generator[int64] { return Int64Range(math.MinInt64, math.MaxInt64) }

// Uint64 makes any number.
func Uint64() Generator[uint64] { return func(t *T) uint64 { return upTo(t, math.MaxUint64) } }

// Byte makes any byte.
func Byte() Generator[byte] { return func(t *T) byte { return byte(upTo(t, math.MaxUint8)) } }

// Float64Range makes numbers from least to most: integers, fractions, and all
// magnitudes.
func Float64Range(least, most float64) Generator[float64] {
	return func(t *T) float64 {
		f := math.NaN()
		switch IntRange(0, 3)(t) {
		case 0:
			f = float64(Int64Range(-1000, 1000)(t))
		case 1:
			if f = SampledFrom([]float64{least, most, math.Copysign(0, -1)})(t); f == 0 && least == 0 {
				f = 0 // without a sign
			}
		case 2:
			f = math.Float64frombits(Uint64()(t))
		}
		if f >= least && f <= most {
			return f
		}
		part := float64(upTo(t, 1<<53)) / (1 << 53)
		return least*(1-part) + most*part
	}
}

// Repeat counts from 0, between least and most times. Each round after the first
// least ones is a choice of its own, so that a reduction can leave it out.
func (t *T) Repeat(least, most int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < most; i++ {
			if left := uint64(most - i); i >= least && t.choose(1, func(r *rand.Rand) uint64 { return min(1, r.Uint64N(left+1)) }) == 0 {
				return
			}
			if !yield(i) {
				return
			}
		}
	}
}

// SliceOfN makes lists with a length from least to most.
func SliceOfN[V any](g Generator[V], least, most int) Generator[[]V] {
	return func(t *T) []V {
		list := []V{}
		for range t.Repeat(least, most) {
			list = append(list, g(t))
		}
		return list
	}
}

// MapOfN makes maps with a size from least to most.
func MapOfN[K comparable, V any](keys Generator[K], values Generator[V], least, most int) Generator[map[K]V] {
	return func(t *T) map[K]V {
		made := map[K]V{}
		for _, key := range DistinctOfN(keys, least, most)(t) {
			made[key] = values(t)
		}
		return made
	}
}

// DistinctOfN makes lists of distinct values. If there are too few, the list is
// shorter, or the case is discarded if it would be shorter than least.
func DistinctOfN[V comparable](g Generator[V], least, most int) Generator[[]V] {
	return func(t *T) []V {
		list := []V{}
		for range t.Repeat(least, most) {
			v := g(t)
			for try := 0; try < 100 && slices.Contains(list, v); try++ {
				v = g(t)
			}
			if !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
		if len(list) < least {
			t.Skipf("only %d of %d values differ", len(list), least)
		}
		return list
	}
}

// StringOf makes texts of the given letters.
func StringOf(letters string, least, most int) Generator[string] {
	return Map(SliceOfN(SampledFrom([]rune(letters)), least, most), func(r []rune) string { return string(r) })
}

// String makes texts, most of them short.
func String() Generator[string] { return StringN(0, 20) }

// StringN makes texts with a number of runes: letters, characters with a special
// meaning somewhere, and any others.
func StringN(least, most int) Generator[string] {
	letter := OneOf(
		SampledFrom([]rune("aAbcxyzZ0159 _")),
		Map(IntRange(0, 0x7f), func(n int) rune { return rune(n) }),
		SampledFrom([]rune("\x00\t\n\r\x1b\"'`\\/%&<>{}[]$#~\u0085\u00a0éßİıΩ\u0301\u200d\u202e\u2028\u2029\ufeff\ufffd世👩\U0010ffff")),
		Map(IntRange(0, 0x10ffff-0x800), func(n int) rune {
			if n >= 0xd800 { // no half of a pair
				n += 0x800
			}
			return rune(n)
		}),
	)
	return Map(SliceOfN(letter, least, most), func(r []rune) string { return string(r) })
}
