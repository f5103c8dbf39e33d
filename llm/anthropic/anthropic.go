// Package anthropic speaks the Messages protocol.
package anthropic

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
)

// DefaultURL is Anthropic's own server.
const DefaultURL = "https://api.anthropic.com"

// DefaultMaxTokens is the limit of an answer where nobody set one: the
// protocol wants a number.
const DefaultMaxTokens = 8192

// version is the revision of the protocol this package speaks.
const version = "2023-06-01"

// Config is one model on one server. Only Model is required.
type Config struct {
	Model     string      // as the server calls it
	Provider  string      // in errors, and before the name of the model that answered; default anthropic
	URL       string      // without /v1; default DefaultURL
	Key       string      // empty: none is sent
	Header    http.Header // anthropic-beta, say
	MaxTokens int         // of an answer, where the session sets no limit; default DefaultMaxTokens

	Client   *http.Client  // nil: http.DefaultTransport
	Idle     time.Duration // longest silence of the server; default 5 minutes
	MaxBytes int64         // of one answer; default 64 MiB
}

// Model is a model behind the Messages protocol.
type Model struct {
	config Config
	wire   *wire.Client
}

// New makes a model. Nothing is asked of the server yet.
func New(c Config) (*Model, error) {
	if c.Provider == "" {
		c.Provider = "anthropic"
	}
	if c.URL == "" {
		c.URL = DefaultURL
	}
	if c.MaxTokens <= 0 {
		c.MaxTokens = DefaultMaxTokens
	}
	header := http.Header{}
	if c.Header != nil {
		header = c.Header.Clone()
	}
	if header.Get("Anthropic-Version") == "" {
		header.Set("Anthropic-Version", version)
	}
	if c.Key != "" {
		header.Set("X-Api-Key", c.Key)
	}
	client, err := wire.New(wire.Config{
		Provider: c.Provider, Model: c.Model, URL: strings.TrimSuffix(strings.TrimSuffix(c.URL, "/"), "/v1"), Header: header,
		Client: c.Client, Idle: c.Idle, MaxBytes: c.MaxBytes,
	})
	if err != nil {
		return nil, err
	}
	return &Model{config: c, wire: client}, nil
}

// Infer asks the server once. Thoughts are sealed for the model and account
// that had them: a server that refuses some is asked again without any.
func (m *Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	response, err := m.ask(ctx, r, emit)
	if forgotten, had := withoutThoughts(r.Messages); had && refusesThoughts(err) {
		r.Messages = forgotten
		return m.ask(ctx, r, emit)
	}
	return response, err
}

func (m *Model) ask(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	body, err := m.body(r)
	if err != nil {
		return llm.Response{}, err
	}
	said := gathering{model: m, emit: emit, blocks: map[int]*block{}}
	if err := m.wire.Ask(ctx, "v1/messages", body, &said); err != nil {
		return llm.Response{}, err
	}
	return said.response(), nil
}

// Models lists what the server offers, sorted. It is a cheap way to see that
// the server is there and that the key is good.
func (m *Model) Models(ctx context.Context) ([]string, error) {
	return m.wire.Models(ctx, "v1/models")
}
