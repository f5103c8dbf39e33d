package sentences

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
)

// Sizes of the model.
const (
	pieces = 8000 // of the vocabulary
	narrow = 256  // width of a token before the first layer
	width  = 512  // and after it
	inner  = 1536 // and inside a layer
	heads  = 4
)

// model is everything that was learnt. It never changes.
type model struct {
	vocabulary *vocabulary
	embedding  matrix
	places     []float32 // added to a token for its position: MaxTokens × narrow
	layers     [2]layer
	top        matrix
	passes     sync.Pool // of *pass, to be used again
}

// layer is one layer of the transformer: tokens look at each other, then each
// is worked on alone.
type layer struct {
	in       int // width of a token before it
	before   normal
	look     matrix // queries, keys and values of all heads
	said     matrix // what was heard, back to the width of a token
	widen    matrix // of the first layer only: brings in to width
	between  normal
	up, down matrix
}

// normal is layer normalisation: what a token is multiplied by and what is
// added, once it has mean 0 and variance 1.
type normal struct{ scale, shift []float32 }

// matrix is one row of whole numbers for each output. The true weights are the
// row times its scale.
type matrix struct {
	rows, cols int
	whole      string // rows × cols numbers of 8 bits
	scale      []float32
	bias       []float32 // none in a table
}

func (m matrix) row(i int) string { return m.whole[i*m.cols : (i+1)*m.cols] }

// load reads the two files. Rows stay where they are in the file.
func load(weights, pieceList string) (*model, error) {
	v, err := newVocabulary(pieceList)
	if err != nil {
		return nil, err
	}
	r := reader{left: weights}
	r.header(Name + "\n")
	m := &model{vocabulary: v, embedding: r.table(pieces, narrow)}
	m.places = places(r.floats(narrow / 2))
	m.layers[0] = r.layer(narrow)
	m.layers[1] = r.layer(width)
	m.top = r.matrix(width, width)
	if r.broken || r.left != "" {
		return nil, errors.New("the compiled-in weights cannot be read")
	}
	return m, nil
}

// reader takes tensors from the front of a file. Once something is missing it
// is broken and gives zeros.
type reader struct {
	left   string
	broken bool
}

func (r *reader) header(want string) {
	var ok bool
	r.left, ok = strings.CutPrefix(r.left, want)
	r.broken = r.broken || !ok
}

func (r *reader) layer(in int) layer {
	l := layer{in: in, before: r.normal(in), look: r.matrix(3*in, in), said: r.matrix(width, in)}
	if in != width {
		l.widen = r.matrix(width, in)
	}
	l.between = r.normal(width)
	l.up = r.matrix(inner, width)
	l.down = r.matrix(width, inner)
	return l
}

func (r *reader) normal(n int) normal { return normal{scale: r.floats(n), shift: r.floats(n)} }

func (r *reader) matrix(rows, cols int) matrix {
	m := r.table(rows, cols)
	m.bias = r.floats(rows)
	return m
}

func (r *reader) table(rows, cols int) matrix {
	return matrix{rows: rows, cols: cols, scale: r.floats(rows), whole: r.take(rows * cols)}
}

func (r *reader) floats(n int) []float32 {
	raw := []byte(r.take(4 * n))
	floats := make([]float32, n)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return floats
}

func (r *reader) take(n int) string {
	if r.broken || n > len(r.left) {
		r.broken = true
		return strings.Repeat("\x00", n)
	}
	taken := r.left[:n]
	r.left = r.left[n:]
	return taken
}

// places is what is added to a token for its place in the text: a wave for
// each frequency, first the sines, then the cosines.
func places(frequencies []float32) []float32 {
	all := make([]float32, MaxTokens*narrow)
	for place := range MaxTokens {
		row := all[place*narrow : (place+1)*narrow]
		for i, f := range frequencies {
			sin, cos := math.Sincos(float64(float32(place) * f))
			row[i], row[i+len(frequencies)] = float32(sin), float32(cos)
		}
	}
	return all
}
