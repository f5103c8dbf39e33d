package store

import (
	"encoding/binary"
	"math"
)

// Packed holds the vectors of a passage as every store keeps them, each in a
// quarter of its size: first the size of one step, then for each dimension one
// byte, its number of steps. Several vectors of one dimension follow a mark and
// that dimension. Scores made of it are the same in all stores, and as a rule off
// by less than 0.005 if no dimension is far larger than the others.
type Packed []byte

// scaleSize is the length of the step's size, in bytes.
const scaleSize = 4

// maxSteps is how many steps the largest dimension is away from zero.
const maxSteps = 127

// severalMark stands where a single vector has its step, which is always a number.
const severalMark = 0x7fc0_5e0e

// headerSize is the length of the mark and the dimension.
const headerSize = 8

// Pack packs vectors. Those of another dimension than the first are left out. The
// result is nil if none has a dimension.
func Pack(vector []float32, more ...[]float32) Packed {
	if len(vector) == 0 {
		return nil
	}
	packed := packOne(nil, vector)
	for _, v := range more {
		if len(v) == len(vector) {
			packed = packOne(packed, v)
		}
	}
	if len(packed) == scaleSize+len(vector) {
		return packed
	}
	header := binary.LittleEndian.AppendUint32(nil, severalMark)
	header = binary.LittleEndian.AppendUint32(header, uint32(len(vector)))
	return append(header, packed...)
}

func packOne(packed Packed, vector []float32) Packed {
	largest := 0.0
	for _, x := range vector {
		largest = max(largest, math.Abs(float64(x)))
	}
	step := largest / maxSteps
	packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(step)))
	for _, x := range vector {
		steps := 0.0
		if largest > 0 {
			steps = math.RoundToEven(float64(x) / step)
		}
		packed = append(packed, byte(int8(steps)))
	}
	return packed
}

// Score returns the highest cosine of a packed vector and another, all of length
// 1, but at least 0, and the number of that packed vector. It is not ok for
// vectors of different dimensions, which cannot be compared.
func (p Packed) Score(vector []float32) (score float64, part int, ok bool) {
	if len(p) > headerSize && binary.LittleEndian.Uint32(p) == severalMark {
		if binary.LittleEndian.Uint32(p[scaleSize:]) != uint32(len(vector)) {
			return 0, 0, false
		}
		p = p[headerSize:]
	} else if len(p) != scaleSize+len(vector) {
		return 0, 0, false
	}
	one := scaleSize + len(vector)
	if len(vector) == 0 || len(p)%one != 0 {
		return 0, 0, false
	}
	for i := 0; len(p) > 0; i++ {
		if s := p[:one].scoreOne(vector); i == 0 || s > score {
			score, part = s, i
		}
		p = p[one:]
	}
	return score, part, true
}

func (p Packed) scoreOne(vector []float32) float64 {
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
	return min(max(sum*float64(step), 0), 1)
}

// Dimensions is that of the packed vectors.
func (p Packed) Dimensions() int {
	if len(p) > headerSize && binary.LittleEndian.Uint32(p) == severalMark {
		return int(binary.LittleEndian.Uint32(p[scaleSize:]))
	}
	return max(len(p)-scaleSize, 0)
}

// Parts returns the packed vectors one by one.
func (p Packed) Parts() []Packed {
	one := scaleSize + p.Dimensions()
	if len(p) > headerSize && binary.LittleEndian.Uint32(p) == severalMark {
		p = p[headerSize:]
	}
	var parts []Packed
	for ; len(p) >= one && one > scaleSize; p = p[one:] {
		parts = append(parts, p[:one:one])
	}
	return parts
}

// Unpack returns a single packed vector as numbers.
func (p Packed) Unpack() []float32 {
	if len(p) < scaleSize {
		return nil
	}
	step := math.Float32frombits(binary.LittleEndian.Uint32(p))
	vector := make([]float32, len(p)-scaleSize)
	for i, steps := range p[scaleSize:] {
		vector[i] = float32(int8(steps)) * step
	}
	return vector
}
