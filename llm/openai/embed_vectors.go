package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// maxDimension is more than any model has: each blank text needs that much
// memory.
const maxDimension = 1 << 16

// embeddings is an answer: one vector for each text.
type embeddings struct {
	Data []struct {
		Index     *int   `json:"index"` // nil: in the order of the list
		Embedding vector `json:"embedding"`
	} `json:"data"`
	Error json.RawMessage `json:"error"`
}

// vectors reads the vectors of n texts, in the order of the texts.
func (e *Embedder) vectors(raw []byte, n int) ([][]float32, error) {
	var answer embeddings
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, e.wire.Final(fmt.Sprintf("cannot read its vectors: %v", err))
	}
	if len(answer.Error) > 0 && string(answer.Error) != "null" {
		return nil, e.wire.Fault(raw)
	}
	if len(answer.Data) != n {
		return nil, e.wire.Final(fmt.Sprintf("it gave %d vectors for %d texts", len(answer.Data), n))
	}
	vectors := make([][]float32, n)
	dimension := len(answer.Data[0].Embedding)
	for i, item := range answer.Data {
		if item.Index != nil {
			i = *item.Index
		}
		if i < 0 || i >= n || vectors[i] != nil {
			return nil, e.wire.Final("its vectors are not one for each text")
		}
		if len(item.Embedding) != dimension {
			return nil, e.wire.Final(fmt.Sprintf("it gave vectors of %d and of %d dimensions", dimension, len(item.Embedding)))
		}
		vectors[i] = item.Embedding.normalise()
	}
	if err := e.checkDimension(dimension); err != nil {
		return nil, err
	}
	return vectors, nil
}

// checkDimension refuses a dimension other than the configured one, or that of
// the first answer: such vectors cannot be compared.
func (e *Embedder) checkDimension(dimension int) error {
	if dimension == 0 || dimension > maxDimension {
		return e.wire.Final(fmt.Sprintf("it gave vectors of %d dimensions", dimension))
	}
	if e.dimension.CompareAndSwap(0, int64(dimension)) || e.dimension.Load() == int64(dimension) {
		return nil
	}
	return e.wire.Final(fmt.Sprintf("it gave vectors of %d dimensions, not %d", dimension, e.dimension.Load()))
}

// vector is a list of numbers or base64 of 32-bit numbers: some servers ignore
// the requested format.
type vector []float32

// UnmarshalJSON accepts both forms and only finite numbers.
func (v *vector) UnmarshalJSON(data []byte) error {
	*v = nil
	if len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, (*[]float32)(v))
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	if len(raw)%4 != 0 {
		return errors.New("a vector is cut off")
	}
	*v = make(vector, len(raw)/4)
	for i := range *v {
		f := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		if f != f || math.IsInf(float64(f), 0) {
			return fmt.Errorf("a vector has %v in dimension %d", f, i+1)
		}
		(*v)[i] = f
	}
	return nil
}

// normalise scales the vector to length 1. The zero vector stays.
func (v vector) normalise() []float32 {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if sum == 0 {
		return v
	}
	length := math.Sqrt(sum)
	for i, f := range v {
		v[i] = float32(float64(f) / length)
	}
	return v
}
