//go:build !amd64

package sentences

func multiply(row string, four []int16, sums *[block]int32) { multiplyPlain(row, four, sums) }
