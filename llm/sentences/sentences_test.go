package sentences_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/language"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/sentences"
)

var (
	_ llm.Embedder = sentences.Embedder{}
	_ llm.Offline  = sentences.Embedder{}
)

// reference is a text with its tokens and its vector as the published runtime
// makes them from the published weights, which have 32 bits each.
type reference struct {
	Text   string   `json:"text"`
	Tokens []uint16 `json:"tokens"`
	Vector []byte   `json:"vector"`
}

// references are from testdata/reference.js.
func references(t *testing.T) []reference {
	t.Helper()
	raw, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []reference
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 20 {
		t.Fatalf("%d references", len(all))
	}
	return all
}

func (r reference) floats() []float32 {
	floats := make([]float32, len(r.Vector)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(r.Vector[4*i:]))
	}
	return floats
}

func embed(t testing.TB, texts ...string) [][]float32 {
	t.Helper()
	vectors, err := sentences.Embedder{}.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(vectors) != len(texts) {
		t.Fatalf("%d vectors for %d texts", len(vectors), len(texts))
	}
	return vectors
}

// product is the cosine of vectors of length 1.
func product(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEmbed_agreesWithThePublishedModel(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, r := range references(t) {
		if r.Text == "" || language.Foreign(r.Text) {
			continue
		}
		compared++
		if got := product(embed(t, r.Text)[0], r.floats()); got < 0.999 || got > 1.000001 {
			t.Errorf("%.40q: cosine %.6f", r.Text, got)
		}
	}
	if compared < 10 {
		t.Errorf("only %d texts are compared", compared)
	}
}

// Texts of other languages would all be alike, so they are not embedded.
func TestEmbed_takesNoForeignText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Wo ist die graue Katze?", "¿Dónde está mi pasaporte?", "Où est le chat ?", "Где лежит паспорт?", "猫はどこですか。"} {
		v := embed(t, text)[0]
		q, err := sentences.Embedder{}.EmbedQuery(t.Context(), text)
		if err != nil || product(v, v) != 0 || product(q, q) != 0 {
			t.Errorf("%q is embedded (%v)", text, err)
		}
	}
}

func TestEmbedQuery_hasLengthOne(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Which foods make me ill?", "Who are they?", "ZX-4471"} {
		if v, err := (sentences.Embedder{}).EmbedQuery(t.Context(), text); err != nil || math.Abs(product(v, v)-1) > 1e-4 {
			t.Errorf("%q: %f, %v", text, product(v, v), err)
		}
	}
}

func TestTokens_areThePublishedOnes(t *testing.T) {
	t.Parallel()
	longest := 0
	for _, r := range references(t) {
		got, err := sentences.Tokens(r.Text)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, r.Tokens) {
			t.Errorf("%.40q is cut into\n%v, want\n%v", r.Text, got, r.Tokens)
		}
		longest = max(longest, len(got))
	}
	if longest != sentences.MaxTokens {
		t.Errorf("the longest reference has %d tokens: cutting off is not tested", longest)
	}
}

func TestTokens_blanksAndFormsDoNotMatter(t *testing.T) {
	t.Parallel()
	want, err := sentences.Tokens("a fine café")
	if err != nil || len(want) < 3 {
		t.Fatalf("got %v, %v", want, err)
	}
	for _, text := range []string{"a\nfine\ncafé", "\t a  fine\r\n\u00a0café ", "a fine cafe\u0301", "a ﬁne café"} {
		if got, err := sentences.Tokens(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is cut into %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestEmbed_vectorsHaveLengthOne(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", ".", "\xff broken \xc3", strings.Repeat("very long ", 5000), strings.Repeat("x", 100_000)} {
		v := embed(t, text)[0]
		if got := product(v, v); len(v) != sentences.Dimension || math.Abs(got-1) > 1e-5 {
			t.Errorf("%.20q: %d numbers, length %f", text, len(v), got)
		}
	}
}

func TestEmbed_blankAndUnreadableTextsAreZero(t *testing.T) {
	t.Parallel()
	texts := []string{"", " \n\t", "東京", "語 語\n語", "\xff\xfe", "🎉", strings.Repeat("語", 100_000)}
	for i, v := range embed(t, texts...) {
		if len(v) != sentences.Dimension || product(v, v) != 0 {
			t.Errorf("%.20q: %d numbers, length %f", texts[i], len(v), product(v, v))
		}
	}
}

// Vectors are kept and compared for years: they must not depend on what was
// embedded beside them.
func TestEmbed_theSameAloneAmongOthersAndAtTheSameTime(t *testing.T) {
	t.Parallel()
	texts := []string{"Where did I leave my keys?", "", "a", strings.Repeat("one word more ", 35), "I ♥ you ★ and → there", "THE SERVER IS DOWN!!!"}
	alone := make([][]float32, len(texts))
	for i, text := range texts {
		alone[i] = embed(t, text)[0]
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			together, err := sentences.Embedder{}.Embed(t.Context(), texts)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range texts {
				if !slices.Equal(together[i], alone[i]) {
					t.Errorf("%.40q has another vector among others", texts[i])
				}
			}
		})
	}
	all.Wait()
}

func TestEmbed_nothingIsNoVectors(t *testing.T) {
	t.Parallel()
	if got := embed(t); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestEmbed_endsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := (sentences.Embedder{}).Embed(ctx, []string{"a"}); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", got, err)
	}
	// The next one starts anew.
	if got, want := embed(t, "b")[0], embed(t, "b")[0]; !slices.Equal(got, want) || product(got, got) == 0 {
		t.Error("an embedder that was cancelled does not recover")
	}
}

func TestEmbed_needsNoMemoryButTheVectors(t *testing.T) {
	text := []string{"my keys"}
	embed(t, text...)
	got := math.Inf(1)
	for range 20 { // the race detector makes a pool forget now and then: the least counts
		got = min(got, testing.AllocsPerRun(5, func() {
			if _, err := (sentences.Embedder{}).Embed(t.Context(), text); err != nil {
				t.Error(err)
			}
		}))
	}
	if got > 8 {
		t.Errorf("%.0f allocations for one text", got)
	}
}

func ExampleEmbedder() {
	texts := []string{"How do I reset my password?", "I forgot my login, what now?", "The train leaves at noon."}
	v, err := sentences.Embedder{}.Embed(context.Background(), texts)
	if err != nil {
		fmt.Println(err)
		return
	}
	alike := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	fmt.Println(alike(v[0], v[1]) > 2*alike(v[0], v[2]))
	// Output: true
}
