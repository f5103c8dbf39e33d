//go:build !amd64

package sentences

func avx2() bool { return false }

func (c *quantised) multiply(row string, start int, sums *[block]int32) {
	c.multiplyPairs(row, start, sums)
}
