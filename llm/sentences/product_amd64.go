package sentences

import "golang.org/x/sys/cpu"

func avx2() bool { return cpu.X86.HasAVX2 }

// multiply is multiplyPairs, with AVX2 if the processor has it.
func (c *quantised) multiply(row string, start int, sums *[block]int32) {
	if !avx2() {
		c.multiplyPairs(row, start, sums)
		return
	}
	multiplyAVX2(row, c.whole[start*c.size:(start+block)*c.size], sums)
}

// multiplyAVX2 writes the dot products of a row of weights with each of the four
// rows in four. Their length is a multiple of 16.
//
//go:noescape
func multiplyAVX2(row string, four []int16, sums *[block]int32)
