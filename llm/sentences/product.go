package sentences

import "math"

// block is how many rows are multiplied at once.
const block = 4

// largest is what the largest number of a row becomes. The sum of inner
// products of such numbers with weights of 8 bits still fits into 32 bits.
const largest = 8191

// counts is rows of numbers, quantised to 14 bits with a scale for each row:
// the multiplications are then done in whole numbers, many at a time, and a
// row has the same outcome whatever stands beside it.
type counts struct {
	n, size int
	scale   []float32
	whole   []int16 // n rows, and up to a multiple of block whatever was there
	pairs   []int64 // the same, two rows in one; nil where AVX2 does without
}

func newCounts() counts {
	c := counts{scale: make([]float32, MaxTokens), whole: make([]int16, MaxTokens*inner)}
	if !avx2() {
		c.pairs = make([]int64, MaxTokens/2*inner)
	}
	return c
}

// take makes whole numbers of rows of the given size.
func (c *counts) take(rows []float32, size int) {
	c.n, c.size = len(rows)/size, size
	for i := range c.n {
		c.scale[i] = wholeNumbers(c.whole[i*size:(i+1)*size], rows[i*size:(i+1)*size])
	}
	if c.pairs != nil {
		c.pair()
	}
}

// wholeNumbers rounds a row and returns what to multiply the numbers by.
func wholeNumbers(whole []int16, row []float32) (scale float32) {
	var bits uint32 // of the largest; without their signs they are in the same order
	for _, v := range row {
		bits = max(bits, math.Float32bits(v)&^(1<<31))
	}
	most := math.Float32frombits(bits)
	if most == 0 {
		clear(whole)
		return 0
	}
	by := largest / most
	for i, v := range row {
		// All are positive when they are cut off, which is rounding then.
		whole[i] = int16(int32(float32(v*by)+largest+0.5) - largest)
	}
	return most / largest
}

// times writes the product of the matrix with every row of c: a row of m.rows
// numbers for each.
func (m matrix) times(to []float32, c *counts) {
	var sums [block]int32
	for i := range m.rows {
		row, scale, bias := m.row(i), m.scale[i], m.bias[i]
		for start := 0; start < c.n; start += block {
			c.multiply(row, start, &sums)
			for j := range min(block, c.n-start) {
				to[(start+j)*m.rows+i] = float32(sums[j])*(scale*c.scale[start+j]) + bias
			}
		}
	}
}

// pair puts two rows into one of pairs. What a number of that is multiplied
// by, both are: the processor does two multiplications in one.
func (c *counts) pair() {
	for i := 0; i < c.n; i += 2 {
		low, high := c.whole[i*c.size:(i+1)*c.size], c.whole[(i+1)*c.size:(i+2)*c.size]
		to := c.pairs[i/2*c.size:][:c.size]
		for j := range to {
			to[j] = int64(low[j]) + int64(high[j])<<32
		}
	}
}

// multiplyPairs is the sums of the products of a row of weights with each of
// the block of rows from start.
func (c *counts) multiplyPairs(row string, start int, sums *[block]int32) {
	n := len(row)
	pairs := c.pairs[start/2*n:]
	a, b := pairs[:n], pairs[n:2*n]
	var s, t int64
	for i := range n {
		w := int64(int8(row[i]))
		s += w * a[i]
		t += w * b[i]
	}
	sums[0], sums[1] = apart(s)
	sums[2], sums[3] = apart(t)
}

// apart takes the two sums of a pair from one another. A negative low one has
// borrowed from the high one.
func apart(pair int64) (low, high int32) {
	low = int32(pair)
	return low, int32((pair - int64(low)) >> 32)
}
