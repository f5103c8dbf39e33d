package sentences

// block is how many rows are multiplied at once.
const block = 4

// largest is what the largest number of a row becomes. Products of inner such
// numbers with weights of 8 bits still fit into 32 bits.
const largest = 8191

// counts is rows of numbers as whole numbers, each row with its own scale: the
// multiplications are then done in whole numbers, many at a time, and a row
// has the same outcome whatever stands beside it.
type counts struct {
	n, size int
	whole   []int16 // rows up to a multiple of block
	scale   []float32
}

func newCounts() counts {
	return counts{whole: make([]int16, MaxTokens*inner), scale: make([]float32, MaxTokens)}
}

// take makes whole numbers of rows of the given size.
func (c *counts) take(rows []float32, size int) {
	c.n, c.size = len(rows)/size, size
	for i := range c.n {
		c.scale[i] = wholeNumbers(c.whole[i*size:(i+1)*size], rows[i*size:(i+1)*size])
	}
	full := (c.n + block - 1) / block * block
	clear(c.whole[c.n*size : full*size])
}

// wholeNumbers rounds a row and returns what to multiply the numbers by.
func wholeNumbers(whole []int16, row []float32) (scale float32) {
	var most float32
	for _, v := range row {
		most = max(most, v, -v)
	}
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
			multiply(row, c.whole[start*c.size:(start+block)*c.size], &sums)
			for j := range min(block, c.n-start) {
				to[(start+j)*m.rows+i] = float32(sums[j])*(scale*c.scale[start+j]) + bias
			}
		}
	}
}

// multiplyPlain is the sums of the products of a row of weights with each of
// the four rows in four.
func multiplyPlain(row string, four []int16, sums *[block]int32) {
	n := len(row)
	a, b, c, d := four[:n], four[n:2*n], four[2*n:3*n], four[3*n:4*n]
	var s0, s1, s2, s3 int32
	for i := range n {
		w := int32(int8(row[i]))
		s0 += w * int32(a[i])
		s1 += w * int32(b[i])
		s2 += w * int32(c[i])
		s3 += w * int32(d[i])
	}
	*sums = [block]int32{s0, s1, s2, s3}
}
