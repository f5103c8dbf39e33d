package sentences_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/sentences"
)

// The checksums are what internal/generate printed. Other weights make other
// vectors: then the embedder needs another name too.
func TestFiles_areTheGeneratedOnes(t *testing.T) {
	t.Parallel()
	weights, vocabulary := sentences.Files()
	for name, c := range map[string]struct{ file, want string }{
		"weights.bin":    {weights, "280c792b69b01e00e2dc18c7681f9969dbc97af75f9d0a32eeddaaf760013c81"},
		"vocabulary.txt": {vocabulary, "6e66ad647ad7bfa20d6158953b523c62ac405382ebdc28cc2073b70eddcb8d9a"},
	} {
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(c.file))); got != c.want {
			t.Errorf("%s has the checksum %s, want %s", name, got, c.want)
		}
	}
	if !strings.HasPrefix(weights, sentences.WeightsName+"\n") {
		t.Errorf("the weights are of %.20q, the embedder is %q", weights, sentences.WeightsName)
	}
}

func TestLoad_refusesBrokenFiles(t *testing.T) {
	t.Parallel()
	weights, vocabulary := sentences.Files()
	if err := sentences.Load(weights, vocabulary); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ weights, vocabulary string }{
		"no weights":       {"", vocabulary},
		"others' weights":  {"use-lite-int8/2\n" + weights[len(sentences.WeightsName)+1:], vocabulary},
		"cut off":          {weights[:len(weights)-1], vocabulary},
		"more than enough": {weights + "\x00", vocabulary},
		"no vocabulary":    {weights, ""},
		"half of it":       {weights, vocabulary[:strings.LastIndexByte(vocabulary[:len(vocabulary)/2], '\n')+1]},
		"no score":         {weights, strings.Replace(vocabulary, "-3", "x", 1)},
		"no piece":         {weights, strings.Replace(vocabulary, " ▁the\n", " \n", 1)},
	} {
		if err := sentences.Load(c.weights, c.vocabulary); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A text has the same vector with AVX2 and without, because both ways are
// exact, also with the largest numbers there are.
func TestProducts_areExact(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	anything := func(most int) int { return draw.IntN(2*most+1) - most }
	most := func(most int) int { return most }
	least := func(most int) int { return -most }
	for _, n := range []int{16, 256, 512, 1536} {
		for _, weight := range []func(int) int{anything, most, least} {
			for _, number := range []func(int) int{anything, most, least} {
				row, four := make([]byte, n), make([]int16, 4*n)
				var want [4]int64
				for i := range row {
					row[i] = byte(weight(127))
				}
				for i := range four {
					four[i] = int16(number(sentences.Largest))
					want[i/n] += int64(int8(row[i%n])) * int64(four[i])
				}
				fast, plain := sentences.Products(string(row), four)
				for i := range want {
					if int64(fast[i]) != want[i] || int64(plain[i]) != want[i] {
						t.Errorf("%d numbers, row %d: %d and %d, want %d", n, i, fast[i], plain[i], want[i])
					}
				}
			}
		}
	}
}

func FuzzTokens_anyTextCanBeCut(f *testing.F) {
	for _, text := range []string{"", "a b", "\xff\x00", "ﬁ\u0301語 :30:00", "\ufffd<s></s>extra_token_id_1", strings.Repeat("語a", 300)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := sentences.Tokens(text)
		if err != nil || len(tokens) > sentences.MaxTokens {
			t.Errorf("%d tokens, %v", len(tokens), err)
		}
		for i, token := range tokens {
			if token >= 1 && token <= 5 || token >= 8000 {
				t.Errorf("token %d is %d, which no text has", i, token)
			}
		}
	})
}
