package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuantise_isOffByHalfAStepAtMost(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	for _, size := range []float64{1e-6, 1, 1e6} {
		row := make([]float32, 512)
		for i := range row {
			row[i] = float32(draw.NormFloat64() * size)
		}
		scale, whole := quantise(row)
		for i, v := range row {
			back := float64(scale) * float64(int8(whole[i]))
			if off := math.Abs(back - float64(v)); off > float64(scale)*0.50001 {
				t.Errorf("%g became %g: off by %g steps", v, back, off/float64(scale))
			}
			if whole[i] == 0x80 {
				t.Errorf("%g became -128, which has no positive counterpart", v)
			}
		}
	}
	if scale, whole := quantise(make([]float32, 3)); scale != 0 || string(whole) != "\x00\x00\x00" {
		t.Errorf("zeros became %v times %v", whole, scale)
	}
}

func TestMatrix_isTurnedOnItsSide(t *testing.T) {
	t.Parallel()
	// 2 × 3, each column with its own largest number.
	values := []float32{127, -2 * 127, 0, 1, 2 * 64, 3 * 127}
	var data []byte
	for _, v := range values {
		bits := math.Float32bits(v)
		data = append(data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	e := &encoder{model: &model{tensors: map[string]tensor{"m": {shape: []int{1, 2, 3}, data: data}}}}
	e.matrix("m", 2, 3)
	want := "\x00\x00\x80\x3f" + "\x00\x00\x00\x40" + "\x00\x00\x40\x40" + // 1, 2, 3
		"\x7f\x01" + "\x81\x40" + "\x00\x7f"
	if got := e.out.String(); e.err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, e.err, want)
	}
	e.matrix("m", 3, 2)
	if e.err == nil || !strings.Contains(e.err.Error(), "shape") {
		t.Errorf("a matrix of another shape: %v", e.err)
	}
}

func TestRun_refusesOtherWeights(t *testing.T) {
	t.Parallel()
	for name, manifest := range map[string]string{
		"no shards":   `{"weightsManifest":[]}`,
		"other ones":  `{"weightsManifest":[{"paths":["a"],"weights":[{"name":"x","shape":[1],"dtype":"float32"}]}]}`,
		"too short":   `{"weightsManifest":[{"paths":["a"],"weights":[{"name":"x","shape":[9],"dtype":"float32"}]}]}`,
		"not there":   `{"weightsManifest":[{"paths":["b"]}]}`,
		"not a model": `[]`,
	} {
		from, to := t.TempDir(), t.TempDir()
		if err := os.Mkdir(filepath.Join(from, "dist"), 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"model.json": manifest, "a": "\x00\x00\x80\x3f"} {
			if err := os.WriteFile(filepath.Join(from, "dist", file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(from, to); err == nil {
			t.Errorf("%s: no error", name)
		}
		if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
			t.Errorf("%s: %v was written, %v", name, left, err)
		}
	}
}
