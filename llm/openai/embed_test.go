package openai_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
)

var _ llm.Embedder = (*openai.Embedder)(nil)

// embedRequest is what an embedder sent.
type embedRequest struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Encoding   string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions"`
	key        string
}

// embedServer answers requests for embeddings and remembers them.
type embedServer struct {
	answer func(w http.ResponseWriter, r embedRequest)

	mu       sync.Mutex // guards requests
	requests []embedRequest
}

func (s *embedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := embedRequest{key: r.Header.Get("Authorization")}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&request); err != nil || r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err), http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	s.answer(w, request)
}

func (s *embedServer) received() []embedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// embedder is one on a server that answers so.
func embedder(t *testing.T, c openai.EmbedderConfig, answer func(w http.ResponseWriter, r embedRequest)) (*embedServer, *openai.Embedder) {
	t.Helper()
	server := &embedServer{answer: answer}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.Model, c.URL, c.Client = "embed-x", listening.URL+"/v1", &http.Client{Transport: transport}
	e, err := openai.NewEmbedder(c)
	if err != nil {
		t.Fatal(err)
	}
	return server, e
}

// says answers with the same body always.
func says(status int, body string) func(http.ResponseWriter, embedRequest) {
	return func(w http.ResponseWriter, _ embedRequest) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// vectorOf is what the server makes of a text: it tells texts apart and does
// not have the length 1.
func vectorOf(text string) []float32 { return []float32{float32(len(text)), 3, 0, 4} }

func normal(v []float32) []float32 {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	out := make([]float32, len(v))
	for i, f := range v {
		out[i] = float32(float64(f) / math.Sqrt(sum))
	}
	return out
}

type embedItem struct {
	Index     int `json:"index"`
	Embedding any `json:"embedding"`
}

// good answers as OpenAI does, only in another order.
func good(w http.ResponseWriter, r embedRequest) {
	var data []embedItem
	for i := len(r.Input) - 1; i >= 0; i-- {
		item := embedItem{Index: i, Embedding: vectorOf(r.Input[i])}
		if r.Encoding == "base64" {
			item.Embedding = encoded(vectorOf(r.Input[i])...)
		}
		data = append(data, item)
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "usage": map[string]int{"prompt_tokens": 5}}); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func encoded(v ...float32) string {
	var raw []byte
	for _, f := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestEmbed_oneVectorOfLengthOneForEachText(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, embedRequest){
		"base64": good,
		"floats": func(w http.ResponseWriter, r embedRequest) { r.Encoding = ""; good(w, r) },
		"without indexes": func(w http.ResponseWriter, r embedRequest) {
			var items []string
			for _, text := range r.Input {
				items = append(items, fmt.Sprintf(`{"embedding":[%d,3,0,4]}`, len(text)))
			}
			says(200, `{"error":null,"data":[`+strings.Join(items, ",")+`]}`)(w, r)
		},
	} {
		server, e := embedder(t, openai.EmbedderConfig{Key: "sk-123456789"}, answer)
		got, err := e.Embed(t.Context(), []string{"one", "", "three", " \n"})
		want := [][]float32{normal(vectorOf("one")), {0, 0, 0, 0}, normal(vectorOf("three")), {0, 0, 0, 0}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
		sent := []embedRequest{{Model: "embed-x", Input: []string{"one", "three"}, Encoding: "base64", key: "Bearer sk-123456789"}}
		if !reflect.DeepEqual(server.received(), sent) {
			t.Errorf("%s: sent %+v", name, server.received())
		}
	}
}

func TestEmbed_nothingIsNotAsked(t *testing.T) {
	t.Parallel()
	server, e := embedder(t, openai.EmbedderConfig{Dimensions: 3}, good)
	if got, err := e.Embed(t.Context(), nil); len(got) != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := e.Embed(t.Context(), []string{"\t"}); err != nil || !reflect.DeepEqual(got, [][]float32{{0, 0, 0}}) {
		t.Errorf("got %v, %v", got, err)
	}
	if n := len(server.received()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// Even the zero vector has the dimension of the others.
func TestEmbed_blankTextsOnlyAsksForTheDimensionOnce(t *testing.T) {
	t.Parallel()
	server, e := embedder(t, openai.EmbedderConfig{}, good)
	for range 2 {
		if got, err := e.Embed(t.Context(), []string{"", " "}); err != nil || !reflect.DeepEqual(got, [][]float32{{0, 0, 0, 0}, {0, 0, 0, 0}}) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if n := len(server.received()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestEmbed_inBatches(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 400) // 101 tokens by the estimate
	for name, c := range map[string]struct {
		config openai.EmbedderConfig
		texts  []string
		want   []int
	}{
		"by number":          {openai.EmbedderConfig{MaxTexts: 2}, []string{"a", "b", "", "c", "d", "e"}, []int{2, 2, 1}},
		"by tokens":          {openai.EmbedderConfig{MaxTokens: 210}, []string{long, long, "a", long, long, long}, []int{3, 2, 1}},
		"one is always sent": {openai.EmbedderConfig{MaxTokens: 1}, []string{long, long}, []int{1, 1}},
		"all at once":        {openai.EmbedderConfig{}, []string{long, long, "a"}, []int{3}},
	} {
		server, e := embedder(t, c.config, good)
		got, err := e.Embed(t.Context(), c.texts)
		if err != nil || len(got) != len(c.texts) {
			t.Fatalf("%s: got %v, %v", name, got, err)
		}
		for i, text := range c.texts {
			if text != "" && !reflect.DeepEqual(got[i], normal(vectorOf(text))) {
				t.Errorf("%s: text %d has the vector %v", name, i, got[i])
			}
		}
		var sizes []int
		for _, r := range server.received() {
			sizes = append(sizes, len(r.Input))
		}
		if !reflect.DeepEqual(sizes, c.want) {
			t.Errorf("%s: requests of %v texts, want %v", name, sizes, c.want)
		}
	}
}

// A text that is too long would be refused for ever, and keep the others
// waiting.
func TestEmbed_whatIsTooMuchIsSentInHalvesAndCut(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]func(http.ResponseWriter){
		"openai": func(w http.ResponseWriter) {
			says(400, `{"error":{"message":"This model's maximum context length is 8192 tokens, however you requested 9000 tokens","type":"invalid_request_error"}}`)(w, embedRequest{})
		},
		"too large": func(w http.ResponseWriter) { says(413, `{"error":"Payload too large"}`)(w, embedRequest{}) },
		"batch size": func(w http.ResponseWriter) {
			says(422, `{"error":"batch size 5 > maximum allowed batch size 2","type":"Validation"}`)(w, embedRequest{})
		},
	} {
		server, e := embedder(t, openai.EmbedderConfig{}, func(w http.ResponseWriter, r embedRequest) {
			if len(strings.Join(r.Input, "")) > 100 || len(r.Input) > 2 {
				refusal(w)
				return
			}
			good(w, r)
		})
		got, err := e.Embed(t.Context(), []string{"a", strings.Repeat("é", 150), "b", "c", "d"})
		if err != nil || len(got) != 5 {
			t.Fatalf("%s: got %v, %v", name, got, err)
		}
		// 300 bytes, 150, 75, of which the last is half a character.
		if want := normal(vectorOf(strings.Repeat("x", 74))); !reflect.DeepEqual(got[1], want) {
			t.Errorf("%s: the long text has %v, want %v", name, got[1], want)
		}
		if want := normal(vectorOf("d")); !reflect.DeepEqual(got[4], want) {
			t.Errorf("%s: the last text has %v, want %v", name, got[4], want)
		}
		if n := len(server.received()); n > 10 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
	// One that takes nothing at all is not asked for ever.
	server, e := embedder(t, openai.EmbedderConfig{}, says(413, ""))
	if got, err := e.Embed(t.Context(), []string{strings.Repeat("x", 1000), "y"}); err == nil || got != nil || len(server.received()) > 12 {
		t.Errorf("%d requests, %v, %v", len(server.received()), got, err)
	}
}

func TestEmbed_sendsNoMoreOfATextThanModelsTake(t *testing.T) {
	t.Parallel()
	server, e := embedder(t, openai.EmbedderConfig{}, good)
	if _, err := e.Embed(t.Context(), []string{strings.Repeat("語", 50_000)}); err != nil {
		t.Fatal(err)
	}
	if sent := server.received()[0].Input[0]; len(sent) > 32<<10 || len(sent) < 32<<10-4 || strings.Trim(sent, "語") != "" {
		t.Errorf("%d bytes, ending in %q", len(sent), sent[len(sent)-3:])
	}
}

func TestEmbed_aServerThatKnowsNoBase64IsAskedWithoutIt(t *testing.T) {
	t.Parallel()
	server, e := embedder(t, openai.EmbedderConfig{}, func(w http.ResponseWriter, r embedRequest) {
		if r.Encoding != "" {
			says(400, `{"error":{"message":"Unknown parameter: 'encoding_format'.","param":"encoding_format"}}`)(w, r)
			return
		}
		good(w, r)
	})
	for range 2 {
		if got, err := e.Embed(t.Context(), []string{"a"}); err != nil || !reflect.DeepEqual(got[0], normal(vectorOf("a"))) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if n := len(server.received()); n != 3 { // refused once, and never asked so again
		t.Errorf("%d requests", n)
	}
}

func TestNewEmbedder_checksItsConfigAndHasAName(t *testing.T) {
	t.Parallel()
	for _, c := range []openai.EmbedderConfig{{}, {Model: "m", URL: "ftp://x"}, {Model: "m", Dimensions: -1}, {Model: "m", MaxTexts: -1}, {Model: "m", MaxTokens: -1}} {
		var invalid *session.InvalidError
		if _, err := openai.NewEmbedder(c); !errors.As(err, &invalid) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	for want, c := range map[string]openai.EmbedderConfig{
		"openai/m":      {Model: "m"},
		"openai/m/256":  {Model: "m", Dimensions: 256},
		"ollama/m:1.5b": {Model: "m:1.5b", Provider: "ollama", URL: "http://localhost:11434/v1"},
	} {
		if e, err := openai.NewEmbedder(c); err != nil || e.Name() != want {
			t.Errorf("got %v, %v, want %s", e, err, want)
		}
	}
}
