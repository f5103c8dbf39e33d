package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// header begins the weights: the name of the embedder they are for.
const header = "use-lite-int8/1\n"

const (
	pieces = 8000 // of the vocabulary; the published table has two more rows
	narrow = 256  // width of a token before the first layer
	wide   = 512  // and after it
	inner  = 1536 // width inside a layer
)

// Prefixes of the published names.
const (
	folded = "module_apply_default/Encoder_en/KonaTransformer/Encode/"
	stored = "module/Encoder_en/"
)

// encoder writes tensors one after the other. The first error stays.
type encoder struct {
	model *model
	out   bytes.Buffer
	err   error
}

// encode is the file of weights, in the order in which package sentences
// reads it.
func encode(m *model) ([]byte, error) {
	e := &encoder{model: m}
	e.out.WriteString(header)
	e.table("module/Embeddings_en", pieces+2, narrow, pieces)
	e.floats(folded+"TransformerStack/Layer_0/AddTimingSignal/TimingSignal/ExpandDims_1", narrow/2)
	e.layer(0, narrow)
	e.layer(1, wide)
	e.matrix(stored+"hidden_layers/tanh_layer_0/weights", wide, wide)
	e.floats(stored+"hidden_layers/tanh_layer_0/bias", wide)
	return e.out.Bytes(), e.err
}

// layer writes one layer of the transformer. The first one widens its input,
// for which it has a matrix more.
func (e *encoder) layer(number, in int) {
	layer := fmt.Sprintf("Layer_%d/TransformerLayer/", number)
	constants := folded + layer
	kernels := stored + "KonaTransformer/Encode/" + layer
	const part, whole = "/kernel/part_0", "/bias/ConcatPartitions/concat"

	e.norm(constants+"layer_prepostprocess/", in)
	e.matrix(kernels+"MultiheadAttention/qkv_transform_single"+part, in, 3*in)
	e.floats(constants+"MultiheadAttention/qkv_transform_single"+whole, 3*in)
	e.matrix(kernels+"MultiheadAttention/output_transform_single"+part, in, wide)
	e.floats(constants+"MultiheadAttention/output_transform_single"+whole, wide)
	if in != wide {
		e.matrix(constants+"dense/kernel/ConcatPartitions/concat", in, wide)
		e.floats(constants+"dense"+whole, wide)
	}
	e.norm(constants+"FFN/layer_prepostprocess/", wide)
	e.matrix(folded+"TransformerStack/"+layer+"FFN/conv1/Tensordot/Reshape_1", wide, inner)
	e.floats(constants+"FFN/conv1"+whole, inner)
	e.matrix(folded+"TransformerStack/"+layer+"FFN/conv2/Tensordot/Reshape_1", inner, wide)
	e.floats(constants+"FFN/conv2"+whole, wide)
}

// norm writes what normalisation multiplies by and adds.
func (e *encoder) norm(prefix string, width int) {
	e.floats(prefix+"layer_norm/layer_norm_scale/ConcatPartitions/concat", width)
	e.floats(prefix+"layer_norm/layer_norm_bias/ConcatPartitions/concat", width)
}

func (e *encoder) floats(name string, n int) {
	values := e.values(name, n)
	for _, v := range values {
		e.float(v)
	}
}

// table writes the first rows of a tensor in whole numbers, each row with its
// own scale.
func (e *encoder) table(name string, rows, cols, keep int) {
	values := e.values(name, rows, cols)
	if e.err == nil {
		e.rows(values[:keep*cols], cols)
	}
}

// matrix writes a tensor of in × out turned on its side, so that what makes
// one output is in one row and has one scale.
func (e *encoder) matrix(name string, in, out int) {
	values := e.values(name, in, out)
	if e.err != nil {
		return
	}
	turned := make([]float32, len(values))
	for i := range in {
		for j := range out {
			turned[j*in+i] = values[i*out+j]
		}
	}
	e.rows(turned, in)
}

// rows writes the scales of all rows, then the rows.
func (e *encoder) rows(values []float32, cols int) {
	whole := make([]byte, 0, len(values))
	for start := 0; start < len(values); start += cols {
		scale, row := quantise(values[start : start+cols])
		e.float(scale)
		whole = append(whole, row...)
	}
	e.out.Write(whole)
}

// quantise is a row as whole numbers from -127 to 127 and what to multiply
// them by: no value is off by more than half of that.
func quantise(row []float32) (scale float32, whole []byte) {
	largest := 0.0
	for _, v := range row {
		largest = max(largest, math.Abs(float64(v)))
	}
	whole = make([]byte, len(row))
	scale = float32(largest / 127)
	if scale == 0 {
		return 0, whole
	}
	for i, v := range row {
		whole[i] = byte(int8(math.RoundToEven(float64(v) / float64(scale))))
	}
	return scale, whole
}

func (e *encoder) values(name string, shape ...int) []float32 {
	if e.err != nil {
		return nil
	}
	values, err := e.model.values(name, shape...)
	e.err = err
	return values
}

func (e *encoder) float(v float32) {
	e.out.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
}
