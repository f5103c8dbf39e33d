package sentences

import "golang.org/x/sys/cpu"

// multiply is multiplyPlain, as fast as the processor can.
func multiply(row string, four []int16, sums *[block]int32) {
	if cpu.X86.HasAVX2 {
		multiplyAVX2(row, four, sums)
		return
	}
	multiplyPlain(row, four, sums)
}

// multiplyAVX2 is multiplyPlain for rows whose length 16 divides.
//
//go:noescape
func multiplyAVX2(row string, four []int16, sums *[block]int32)
