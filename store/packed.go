package store

import (
	"encoding/binary"
	"math"
)

// Packed is a vector as every store keeps it, in a quarter of its size: first
// the size of one step, then for each dimension one byte, its number of steps.
// Scores made of it are the same in all stores, and as a rule off by less than
// 0.005 if no dimension is far larger than the others.
type Packed []byte

// scaleSize is the length of the step's size, in bytes.
const scaleSize = 4

// maxSteps is how many steps the largest dimension is away from zero.
const maxSteps = 127

// Pack packs a vector. One without dimensions is nil.
func Pack(vector []float32) Packed {
	if len(vector) == 0 {
		return nil
	}
	largest := 0.0
	for _, x := range vector {
		largest = max(largest, math.Abs(float64(x)))
	}
	step := largest / maxSteps
	packed := make(Packed, scaleSize+len(vector))
	binary.LittleEndian.PutUint32(packed, math.Float32bits(float32(step)))
	if largest == 0 {
		return packed
	}
	for i, x := range vector {
		packed[scaleSize+i] = byte(int8(math.RoundToEven(float64(x) / step)))
	}
	return packed
}

// Score returns the cosine of the packed vector and another, both of length 1,
// but at least 0. It is not ok for vectors of different dimensions, which cannot
// be compared.
func (p Packed) Score(vector []float32) (score float64, ok bool) {
	if len(p) <= scaleSize || len(p)-scaleSize != len(vector) {
		return 0, false
	}
	steps := p[scaleSize:]
	// Four independent sums let the processor work on several additions at once.
	var a, b, c, d float32
	for len(vector) >= 4 && len(steps) >= 4 {
		a += float32(int8(steps[0])) * vector[0]
		b += float32(int8(steps[1])) * vector[1]
		c += float32(int8(steps[2])) * vector[2]
		d += float32(int8(steps[3])) * vector[3]
		steps, vector = steps[4:], vector[4:]
	}
	for i, x := range vector {
		a += float32(int8(steps[i])) * x
	}
	sum := float64(a) + float64(b) + float64(c) + float64(d)
	step := math.Float32frombits(binary.LittleEndian.Uint32(p))
	return min(max(sum*float64(step), 0), 1), true
}
