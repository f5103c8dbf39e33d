package sentences

import "math"

// apply normalises the rows of from to mean 0 and variance 1, then scales and
// shifts them.
func (n layerNorm) apply(to, from []float32) {
	size := len(n.scale)
	for start := 0; start < len(from); start += size {
		row, out := from[start:start+size], to[start:start+size]
		var sum, squares float32
		for _, v := range row {
			sum += v
		}
		mean := sum / float32(size)
		for _, v := range row {
			squares += (v - mean) * (v - mean)
		}
		by := float32(1 / math.Sqrt(float64(squares/float32(size))+1e-6))
		for i, v := range row {
			out[i] = (v-mean)*by*n.scale[i] + n.shift[i]
		}
	}
}

// softmax turns scores into positive weights with the sum 1.
func softmax(scores []float32) {
	largest := scores[0]
	for _, s := range scores {
		largest = max(largest, s)
	}
	var sum float32
	for i, s := range scores {
		scores[i] = float32(math.Exp(float64(s - largest)))
		sum += scores[i]
	}
	for i := range scores {
		scores[i] /= sum
	}
}

// dot needs a length that is a multiple of four.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	return s0 + s1 + s2 + s3
}

// add adds the beginning of from to all of to.
func add(to, from []float32) {
	from = from[:len(to)]
	for i := range to {
		to[i] += from[i]
	}
}

func addTimes(to []float32, times float32, from []float32) {
	from = from[:len(to)]
	for i := range to {
		to[i] += times * from[i]
	}
}
