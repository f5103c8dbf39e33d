package openai

import (
	"cmp"
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

// maxTextBytes is where a text is cut: about the 8,191 tokens that OpenAI's
// models read.
const maxTextBytes = 32 << 10

// EmbedderConfig is one embedding model on one server. Only Model is required.
type EmbedderConfig struct {
	Model    string // as the server calls it
	Provider string // for errors and the embedder's name; default openai
	URL      string // default DefaultURL
	Key      string // empty: none is sent
	Header   http.Header

	Dimensions int // of the vectors, if the model can shorten them; 0: the model's own
	MaxTexts   int // of one request; default DefaultMaxTexts
	MaxTokens  int // of one request, by an estimate; default DefaultMaxTokens

	Client   *http.Client  // nil: http.DefaultTransport
	Idle     time.Duration // the longest pause in an answer; default 5 minutes
	MaxBytes int64         // of one answer; default 64 MiB
}

// Embedder is an llm.Embedder that uses the embeddings endpoint.
type Embedder struct {
	config    EmbedderConfig
	wire      *wire.Client
	dimension atomic.Int64 // of all vectors, once known
	plain     atomic.Bool  // the server refuses base64
}

// NewEmbedder makes an embedder. It does not contact the server.
func NewEmbedder(c EmbedderConfig) (*Embedder, error) {
	c.Provider, c.URL = cmp.Or(c.Provider, "openai"), cmp.Or(c.URL, DefaultURL)
	if c.Dimensions < 0 || c.MaxTexts < 0 || c.MaxTokens < 0 {
		return nil, &session.InvalidError{Field: "Config", Reason: "Dimensions, MaxTexts and MaxTokens must not be negative"}
	}
	c.MaxTexts, c.MaxTokens = cmp.Or(c.MaxTexts, DefaultMaxTexts), cmp.Or(c.MaxTokens, DefaultMaxTokens)
	client, err := wire.New(wire.Config{
		Provider: c.Provider, Model: c.Model, URL: c.URL, Header: authorised(c.Header, c.Key),
		Client: c.Client, Idle: c.Idle, MaxBytes: c.MaxBytes,
	})
	if err != nil {
		return nil, err
	}
	e := &Embedder{config: c, wire: client}
	e.dimension.Store(int64(c.Dimensions))
	return e, nil
}

// Name joins provider, model and, if set, dimensions. The same model on two
// servers needs two provider names.
func (e *Embedder) Name() string {
	name := e.config.Provider + "/" + e.config.Model
	if e.config.Dimensions > 0 {
		name = fmt.Sprintf("%s/%d", name, e.config.Dimensions)
	}
	return name
}

// Embed asks the server for the vectors of all texts, in several requests if
// needed; if one fails, all fails. Blank texts are not sent. A text that is too
// long for the model is cut until it fits.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var asked []int // texts that are not blank
	for i, text := range texts {
		if strings.TrimSpace(text) != "" {
			asked = append(asked, i)
		}
	}
	for len(asked) > 0 {
		n := e.batchSize(texts, asked)
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

// batchSize returns how many of the asked texts fit in one request, at least one.
func (e *Embedder) batchSize(texts []string, asked []int) int {
	tokens := 0
	for n, at := range asked[:min(len(asked), e.config.MaxTexts)] {
		tokens += min(len(texts[at]), maxTextBytes)/4 + 1
		if n > 0 && tokens > e.config.MaxTokens {
			return n
		}
	}
	return min(len(asked), e.config.MaxTexts)
}

// embed sends a batch. If it is too large for the server, it is halved; a single
// text is cut in half: one long text must not block all others.
func (e *Embedder) embed(ctx context.Context, batch []string) ([][]float32, error) {
	vectors, err := e.ask(ctx, batch)
	switch half := len(batch) / 2; {
	case err == nil || !isTooLarge(err):
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

func isTooLarge(err error) bool {
	var refused *llm.ProviderError
	return errors.Is(err, session.ErrContextLength) ||
		errors.As(err, &refused) && (refused.Status == http.StatusRequestEntityTooLarge ||
			refused.Status/100 == 4 && strings.Contains(strings.ToLower(refused.Message), "batch size"))
}

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

// fillBlank gives every text without a vector the zero vector. If the dimension
// is not known yet, it embeds an example to find out.
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

// cut returns the beginning of a text, without half a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
