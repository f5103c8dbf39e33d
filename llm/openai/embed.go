package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// Defaults of EmbedderConfig. OpenAI itself takes 2,048 texts and 300,000
// tokens at once.
const (
	DefaultMaxTexts  = 256
	DefaultMaxTokens = 100_000
)

// maxTextBytes is where a text is cut before it is sent: about the 8,191
// tokens that OpenAI's models look at.
const maxTextBytes = 32 << 10

// EmbedderConfig is one embedding model on one server. Only Model is required.
type EmbedderConfig struct {
	Model    string // as the server calls it
	Provider string // in errors and in the embedder's name; default openai
	URL      string // default DefaultURL
	Key      string // empty: none is sent
	Header   http.Header

	Dimensions int // of the vectors, where the model can shorten them; 0: its own
	MaxTexts   int // of one request; default DefaultMaxTexts
	MaxTokens  int // of one request, by an estimate; default DefaultMaxTokens

	Client   *http.Client  // nil: http.DefaultTransport
	Idle     time.Duration // longest silence of the server; default 5 minutes
	MaxBytes int64         // of one answer; default 64 MiB
}

// Embedder is a llm.Embedder behind the embeddings part of the protocol.
type Embedder struct {
	config    EmbedderConfig
	wire      *wire.Client
	dimension atomic.Int64 // of all vectors, once known
	plain     atomic.Bool  // the server refuses to be asked for base64
}

// NewEmbedder makes an embedder. Nothing is asked of the server yet.
func NewEmbedder(c EmbedderConfig) (*Embedder, error) {
	if c.Provider == "" {
		c.Provider = "openai"
	}
	if c.URL == "" {
		c.URL = DefaultURL
	}
	if c.Dimensions < 0 || c.MaxTexts < 0 || c.MaxTokens < 0 {
		return nil, &session.InvalidError{Field: "Config", Reason: "Dimensions, MaxTexts and MaxTokens are not negative"}
	}
	if c.MaxTexts == 0 {
		c.MaxTexts = DefaultMaxTexts
	}
	if c.MaxTokens == 0 {
		c.MaxTokens = DefaultMaxTokens
	}
	header := http.Header{}
	if c.Header != nil {
		header = c.Header.Clone()
	}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	client, err := wire.New(wire.Config{
		Provider: c.Provider, Model: c.Model, URL: c.URL, Header: header, Client: c.Client, Idle: c.Idle, MaxBytes: c.MaxBytes,
	})
	if err != nil {
		return nil, err
	}
	e := &Embedder{config: c, wire: client}
	e.dimension.Store(int64(c.Dimensions))
	return e, nil
}

// Name is the provider, the model, and the dimensions if they were chosen.
// Models of one name on two servers need two providers.
func (e *Embedder) Name() string {
	name := e.config.Provider + "/" + e.config.Model
	if e.config.Dimensions > 0 {
		name = fmt.Sprintf("%s/%d", name, e.config.Dimensions)
	}
	return name
}

// Embed asks the server for the vectors of all texts, in as many requests as
// that takes; if one of them fails all of it does. Blank texts are not sent. A
// text that is longer than the model takes is cut until it fits: it stands for
// itself by its beginning.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var asked []int // texts that are not blank
	for i, text := range texts {
		if strings.TrimSpace(text) != "" {
			asked = append(asked, i)
		}
	}
	for len(asked) > 0 {
		n := e.fitting(texts, asked)
		batch := make([]string, n)
		for i, at := range asked[:n] {
			batch[i] = cut(texts[at], maxTextBytes)
		}
		got, err := e.embed(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i, at := range asked[:n] {
			vectors[at] = got[i]
		}
		asked = asked[n:]
	}
	if err := e.fillBlank(ctx, vectors); err != nil {
		return nil, err
	}
	return vectors, nil
}

// fitting is how many of the asked texts go into one request, at least one.
func (e *Embedder) fitting(texts []string, asked []int) int {
	tokens := 0
	for n, at := range asked[:min(len(asked), e.config.MaxTexts)] {
		tokens += min(len(texts[at]), maxTextBytes)/4 + 1
		if n > 0 && tokens > e.config.MaxTokens {
			return n
		}
	}
	return min(len(asked), e.config.MaxTexts)
}

// embed asks for a batch. One that is too much for the server is asked for in
// halves, in the end a text by its first half: a single text that no server
// takes must not keep all others from being embedded.
func (e *Embedder) embed(ctx context.Context, batch []string) ([][]float32, error) {
	vectors, err := e.ask(ctx, batch)
	switch half := len(batch) / 2; {
	case err == nil || !tooMuch(err):
		return vectors, err
	case half > 0:
		first, err := e.embed(ctx, batch[:half])
		if err != nil {
			return nil, err
		}
		second, err := e.embed(ctx, batch[half:])
		return slices.Concat(first, second), err
	case len(batch[0]) < 2*utf8.UTFMax:
		return nil, err
	}
	return e.embed(ctx, []string{cut(batch[0], len(batch[0])/2)})
}

// tooMuch reports a request that was refused for its size.
func tooMuch(err error) bool {
	var refused *llm.ProviderError
	return errors.Is(err, session.ErrContextLength) ||
		errors.As(err, &refused) && (refused.Status == http.StatusRequestEntityTooLarge ||
			refused.Status/100 == 4 && strings.Contains(strings.ToLower(refused.Message), "batch size"))
}

// ask sends one request.
func (e *Embedder) ask(ctx context.Context, batch []string) ([][]float32, error) {
	body := map[string]any{"model": e.config.Model, "input": batch}
	if e.config.Dimensions > 0 {
		body["dimensions"] = e.config.Dimensions
	}
	asked := !e.plain.Load()
	if asked {
		body["encoding_format"] = "base64" // a quarter of the size
	}
	raw, err := e.post(ctx, body)
	var refused *llm.ProviderError
	if asked && errors.As(err, &refused) && unsupported(refused) && strings.Contains(refused.Param+refused.Message, "encoding_format") {
		e.plain.Store(true)
		delete(body, "encoding_format")
		raw, err = e.post(ctx, body)
	}
	if err != nil {
		return nil, err
	}
	return e.vectors(raw, len(batch))
}

func (e *Embedder) post(ctx context.Context, body any) ([]byte, error) {
	answer, err := e.wire.Post(ctx, "embeddings", body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return answer.All()
}

// fillBlank gives every text without a vector the zero vector. How long that
// is a server has to tell: it is asked for any text if it has never told.
func (e *Embedder) fillBlank(ctx context.Context, vectors [][]float32) error {
	for i, v := range vectors {
		if v != nil {
			continue
		}
		if e.dimension.Load() == 0 {
			if _, err := e.embed(ctx, []string{"text"}); err != nil {
				return err
			}
		}
		vectors[i] = make([]float32, e.dimension.Load())
	}
	return nil
}

// cut is the beginning of a text, of whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
