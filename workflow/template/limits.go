package template

import "time"

// What one template and one rendering may take. The bounds are far beyond
// any prompt; they are there so that a mistake, or a text written to hurt,
// ends in an error and not in a process without memory.
const (
	// maxNesting bounds blocks and brackets inside one another.
	maxNesting = 100
	// maxNodes bounds the parts of one expression.
	maxNodes = 10_000
	// maxSteps bounds the work of one rendering: evaluated parts of
	// expressions, loop rounds, elements looked at.
	maxSteps = 2_000_000
	// maxMatching bounds the time of all pattern searches of one rendering.
	maxMatching = 2 * time.Second
	// maxBytes bounds the text and lists one rendering makes, the output
	// included.
	maxBytes = 64 << 20
	// maxIntBits bounds integers: 4,300 digits, the most Python prints.
	maxIntBits = 14_284
	// maxDepth bounds values inside one another.
	maxDepth = 500
	// maxKeyBytes bounds tuples used as keys.
	maxKeyBytes = 64 << 10
	// maxWidth bounds the width and the precision of formats.
	maxWidth = 100_000
	// longStep is what an operation on big integers, or a power, counts for.
	longStep = 100
	// maxRange bounds range(…), as Jinja's sandbox does.
	maxRange = 100_000
	// elementBytes is what an element of a list counts for.
	elementBytes = 16
)

// meter counts what a rendering has used.
type meter struct {
	steps int
	bytes int
}

// step counts n units of work.
func (m *meter) step(n int) error {
	if n > maxSteps-m.steps {
		return failf(KindLimit, "more than %d steps of work", maxSteps)
	}
	m.steps += n
	return nil
}

// grow counts n bytes about to be made.
func (m *meter) grow(n int) error {
	if n > maxBytes-m.bytes {
		return failf(KindLimit, "more than %d MiB of text and lists", maxBytes>>20)
	}
	m.bytes += n
	return nil
}

// elements counts a list of n elements about to be made.
func (m *meter) elements(n int) error {
	if n > maxBytes/elementBytes {
		return m.grow(maxBytes + 1)
	}
	return m.grow(n * elementBytes)
}

// times returns n * size, or too much of both without an overflow.
func times(n, size int) int { return min(n, maxBytes+1) * min(size, maxBytes+1) }
