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

// model holds the weights. It never changes.
type model struct {
	vocabulary *vocabulary
	embedding  matrix
	positions  []float32 // added to a token for its position: MaxTokens × narrow
	layers     [2]layer
	top        matrix
	batches    sync.Pool // of *batch, for reuse
}

// layer is one layer of the transformer: attention, then feed-forward.
type layer struct {
	in       int // width of its input
	before   layerNorm
	qkv      matrix // queries, keys and values of all heads
	project  matrix // attention, projected to the width of a token
	widen    matrix // of the first layer only: from in to width
	between  layerNorm
	up, down matrix
}

// layerNorm is layer normalisation.
type layerNorm struct{ scale, shift []float32 }

// matrix has one row of 8-bit integers for each output. The real weights are the
// row times its scale.
type matrix struct {
	rows, cols int
	whole      string // rows × cols numbers of 8 bits
	scale      []float32
	bias       []float32 // none in a table
}

func (m matrix) row(i int) string { return m.whole[i*m.cols : (i+1)*m.cols] }

// weightsName is the first line of the weights.
const weightsName = "use-lite-int8/1"

// load reads the two files. Rows are not copied.
func load(weights, pieceList string) (*model, error) {
	v, err := newVocabulary(pieceList)
	if err != nil {
		return nil, err
	}
	r := reader{left: weights}
	r.header(weightsName + "\n")
	m := &model{vocabulary: v, embedding: r.table(pieces, narrow)}
	m.positions = positions(r.floats(narrow / 2))
	m.layers[0] = r.layer(narrow)
	m.layers[1] = r.layer(width)
	m.top = r.matrix(width, width)
	if r.broken || r.left != "" {
		return nil, errors.New("the compiled-in weights cannot be read")
	}
	return m, nil
}

// reader reads tensors in the order of the file. Once something is missing it is
// broken and returns zeros.
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
	l := layer{in: in, before: r.layerNorm(in), qkv: r.matrix(3*in, in), project: r.matrix(width, in)}
	if in != width {
		l.widen = r.matrix(width, in)
	}
	l.between = r.layerNorm(width)
	l.up = r.matrix(inner, width)
	l.down = r.matrix(width, inner)
	return l
}

func (r *reader) layerNorm(n int) layerNorm { return layerNorm{scale: r.floats(n), shift: r.floats(n)} }

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

// positions computes what is added to a token for its position in the text: for
// each frequency first the sines, then the cosines.
func positions(frequencies []float32) []float32 {
	all := make([]float32, MaxTokens*narrow)
	for position := range MaxTokens {
		row := all[position*narrow : (position+1)*narrow]
		for i, f := range frequencies {
			sin, cos := math.Sincos(float64(float32(position) * f))
			row[i], row[i+len(frequencies)] = float32(sin), float32(cos)
		}
	}
	return all
}
