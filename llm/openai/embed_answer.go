package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// maxDimension is more than any model has; a blank text costs so much memory.
const maxDimension = 1 << 16

// embeddings is an answer: one vector for each text that was sent.
type embeddings struct {
	Data []struct {
		Index     *int   `json:"index"` // nil: as they come
		Embedding vector `json:"embedding"`
	} `json:"data"`
	Error json.RawMessage `json:"error"`
}

// vectors reads the vectors of n texts, in the order of the texts.
func (e *Embedder) vectors(raw []byte, n int) ([][]float32, error) {
	var said embeddings
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, e.wire.Final(fmt.Sprintf("its vectors cannot be read: %v", err))
	}
	if len(said.Error) > 0 && string(said.Error) != "null" {
		return nil, e.wire.Fault(raw)
	}
	if len(said.Data) != n {
		return nil, e.wire.Final(fmt.Sprintf("it gave %d vectors for %d texts", len(said.Data), n))
	}
	vectors := make([][]float32, n)
	dimension := len(said.Data[0].Embedding)
	for i, item := range said.Data {
		if item.Index != nil {
			i = *item.Index
		}
		if i < 0 || i >= n || vectors[i] != nil {
			return nil, e.wire.Final("its vectors are not one for each text")
		}
		if len(item.Embedding) != dimension {
			return nil, e.wire.Final(fmt.Sprintf("it gave vectors of %d and of %d dimensions", dimension, len(item.Embedding)))
		}
		vectors[i] = item.Embedding.normal()
	}
	if err := e.agree(dimension); err != nil {
		return nil, err
	}
	return vectors, nil
}

// agree holds all answers to one dimension, the first one's if none was chosen:
// vectors of two could not be compared.
func (e *Embedder) agree(dimension int) error {
	if dimension == 0 || dimension > maxDimension {
		return e.wire.Final(fmt.Sprintf("it gave vectors of %d dimensions", dimension))
	}
	if e.dimension.CompareAndSwap(0, int64(dimension)) || e.dimension.Load() == int64(dimension) {
		return nil
	}
	return e.wire.Final(fmt.Sprintf("it gave vectors of %d dimensions, not %d", dimension, e.dimension.Load()))
}

// vector comes as a list of numbers, or as base64 of numbers of 32 bits: some
// servers do what they were asked for, some what they always do.
type vector []float32

// UnmarshalJSON takes either form. Every number is a finite one.
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

// normal is the vector with the length 1. One of zeros stays as it is.
func (v vector) normal() []float32 {
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
