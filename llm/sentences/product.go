package sentences

import "math"

// block is how many rows are multiplied at once.
const block = 4

// largest is the value of the largest number of a quantised row. A sum of inner
// products with 8-bit weights still fits into 32 bits.
const largest = 8191

// quantised holds rows as 14-bit integers with a scale for each row. Integer
// multiplication is fast, and the result of a row does not depend on the other
// rows.
type quantised struct {
	n, size int
	scale   []float32
	whole   []int16 // n rows, padded to a multiple of block with old values
	pairs   []int64 // the same, two rows in one; nil with AVX2
}

func newQuantised() quantised {
	c := quantised{scale: make([]float32, MaxTokens), whole: make([]int16, MaxTokens*inner)}
	if !avx2() {
		c.pairs = make([]int64, MaxTokens/2*inner)
	}
	return c
}

// set quantises rows of the given size.
func (c *quantised) set(rows []float32, size int) {
	c.n, c.size = len(rows)/size, size
	for i := range c.n {
		c.scale[i] = wholeNumbers(c.whole[i*size:(i+1)*size], rows[i*size:(i+1)*size])
	}
	if c.pairs != nil {
		c.pair()
	}
}

// wholeNumbers quantises a row and returns its scale.
func wholeNumbers(whole []int16, row []float32) (scale float32) {
	var bits uint32 // of the largest; without the sign they sort like the numbers
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
		// The numbers are positive when truncated, so this rounds.
		whole[i] = int16(int32(float32(v*by)+largest+0.5) - largest)
	}
	return most / largest
}

// times writes the product of the matrix with every row of c, each a row of
// m.rows numbers.
func (m matrix) times(to []float32, c *quantised) {
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

// pair packs two rows into one of pairs, so that one multiplication does the
// work of two.
func (c *quantised) pair() {
	for i := 0; i < c.n; i += 2 {
		low, high := c.whole[i*c.size:(i+1)*c.size], c.whole[(i+1)*c.size:(i+2)*c.size]
		to := c.pairs[i/2*c.size:][:c.size]
		for j := range to {
			to[j] = int64(low[j]) + int64(high[j])<<32
		}
	}
}

// multiplyPairs writes the dot products of a row of weights with each row of the
// block from start.
func (c *quantised) multiplyPairs(row string, start int, sums *[block]int32) {
	n := len(row)
	pairs := c.pairs[start/2*n:]
	a, b := pairs[:n], pairs[n:2*n]
	var s, t int64
	for i := range n {
		w := int64(int8(row[i]))
		s += w * a[i]
		t += w * b[i]
	}
	sums[0], sums[1] = split(s)
	sums[2], sums[3] = split(t)
}

// split separates the two sums of a pair. A negative low sum has borrowed from
// the high one.
func split(pair int64) (low, high int32) {
	low = int32(pair)
	return low, int32((pair - int64(low)) >> 32)
}
