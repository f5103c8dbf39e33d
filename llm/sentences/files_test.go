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
	if !strings.HasPrefix(weights, sentences.Name+"\n") {
		t.Errorf("the weights are of %.20q, the embedder is %q", weights, sentences.Name)
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
		"others' weights":  {"use-lite-int8/2\n" + weights[len(sentences.Name)+1:], vocabulary},
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

func TestMultiply_fastIsPlain(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{16, 256, 512, 1536} {
		row := make([]byte, n)
		four := make([]int16, 4*n)
		for _, extreme := range []bool{false, true} {
			for i := range row {
				row[i] = byte(draw.IntN(255) - 127)
				if extreme {
					row[i] = 0x81 // -127
				}
			}
			for i := range four {
				four[i] = int16(draw.IntN(2*8191+1) - 8191)
				if extreme {
					four[i] = -8191
				}
			}
			var fast, plain [4]int32
			sentences.Multiply(string(row), four, &fast)
			sentences.MultiplyPlain(string(row), four, &plain)
			want := int64(0)
			for i := range n {
				want += int64(int8(row[i])) * int64(four[2*n+i])
			}
			if fast != plain || int64(plain[2]) != want {
				t.Errorf("%d: fast %v, plain %v, want %d in the third place", n, fast, plain, want)
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
