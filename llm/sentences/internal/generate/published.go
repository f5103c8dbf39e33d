package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// published is the checksum of all shards of version 0.2.0 in their order.
// Other weights need other code, or at least another name.
const published = "713639dff4b5b3cc4a1ca070077c0f1125022582dd1d2ec8961d92905c289300"

// model is the published model: tensors of float32 by their names.
type model struct {
	tensors map[string]tensor
}

type tensor struct {
	shape []int
	data  []byte // little-endian
}

// manifest is the part of model.json that says where the tensors are.
type manifest struct {
	WeightsManifest []struct {
		Paths   []string `json:"paths"`
		Weights []struct {
			Name  string `json:"name"`
			Shape []int  `json:"shape"`
			DType string `json:"dtype"`
		} `json:"weights"`
	} `json:"weightsManifest"`
}

// open reads the model in a folder and checks that it is the expected one.
func open(dir string) (*model, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "model.json"))
	if err != nil {
		return nil, err
	}
	var listed manifest
	if err := json.Unmarshal(raw, &listed); err != nil {
		return nil, fmt.Errorf("read model.json: %w", err)
	}
	m := &model{tensors: map[string]tensor{}}
	sum := sha256.New()
	for _, group := range listed.WeightsManifest {
		var data []byte
		for _, path := range group.Paths {
			shard, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				return nil, err
			}
			data = append(data, shard...)
		}
		sum.Write(data)
		for _, w := range group.Weights {
			size := 4 // of float32 and of int32; there is nothing else
			for _, n := range w.Shape {
				size *= n
			}
			if size < 0 || size > len(data) {
				return nil, fmt.Errorf("tensor %s: %d bytes are wanted and %d are left", w.Name, size, len(data))
			}
			if w.DType == "float32" {
				m.tensors[w.Name] = tensor{shape: w.Shape, data: data[:size]}
			}
			data = data[size:]
		}
	}
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != published {
		return nil, fmt.Errorf("the weights have the checksum %s, not %s", got, published)
	}
	return m, nil
}

// values is a tensor of a known shape. Dimensions of 1 do not count.
func (m *model) values(name string, shape ...int) ([]float32, error) {
	t, ok := m.tensors[name]
	if !ok {
		return nil, fmt.Errorf("there is no tensor %s", name)
	}
	if got := slices.DeleteFunc(slices.Clone(t.shape), func(n int) bool { return n == 1 }); !slices.Equal(got, shape) {
		return nil, fmt.Errorf("tensor %s has the shape %v, not %v", name, t.shape, shape)
	}
	values := make([]float32, len(t.data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
	}
	return values, nil
}

// pieceList is one line for each piece, in the order of their numbers: its
// score, a space, the piece. A few pieces are published without a score; the
// published runtime takes it for 0, and so do we.
func pieceList(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var pieces [][2]any
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return nil, fmt.Errorf("read vocab.json: %w", err)
	}
	var b bytes.Buffer
	for i, p := range pieces {
		piece, ok := p[0].(string)
		if !ok || strings.ContainsAny(piece, "\r\n") {
			return nil, fmt.Errorf("piece %d of the vocabulary is %v", i, p[0])
		}
		score, ok := p[1].(float64)
		if !ok && p[1] != nil {
			return nil, fmt.Errorf("score %d of the vocabulary is %v", i, p[1])
		}
		fmt.Fprintf(&b, "%s %s\n", strconv.FormatFloat(score, 'f', -1, 64), piece)
	}
	return b.Bytes(), nil
}
