// Package anthropic implements the Messages protocol.
package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
)

// DefaultURL is Anthropic's own server.
const DefaultURL = "https://api.anthropic.com"

// DefaultMaxTokens is the limit of an answer if the session sets none: the
// protocol demands a number.
const DefaultMaxTokens = 8192

// version is the supported version of the protocol.
const version = "2023-06-01"

// Config is one model on one server. Only Model is required.
type Config struct {
	Model     string      // as the server calls it
	Provider  string      // for errors and Response.Model; default anthropic
	URL       string      // without /v1; default DefaultURL
	Key       string      // empty: none is sent
	Header    http.Header // such as anthropic-beta
	MaxTokens int         // of an answer, if the session sets no limit; default DefaultMaxTokens

	Client   *http.Client  // nil: http.DefaultTransport
	Idle     time.Duration // the longest pause in an answer; default 5 minutes
	MaxBytes int64         // of one answer; default 64 MiB
}

// Model is a model behind the Messages protocol.
type Model struct {
	config Config
	wire   *wire.Client
}

// New makes a model. It does not contact the server.
func New(c Config) (*Model, error) {
	c.Provider, c.URL = cmp.Or(c.Provider, "anthropic"), cmp.Or(c.URL, DefaultURL)
	c.MaxTokens = cmp.Or(max(c.MaxTokens, 0), DefaultMaxTokens)
	header := wire.WithHeader(c.Header, "X-Api-Key", c.Key)
	if header.Get("Anthropic-Version") == "" {
		header.Set("Anthropic-Version", version)
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

// Infer asks the server once. Thinking is signed for one model and account: if
// the server refuses it, it is asked again without thinking.
func (m *Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	response, err := m.ask(ctx, r, emit)
	if messages, had := withoutThinking(r.Messages); had && refusesThinking(err) {
		r.Messages = messages
		return m.ask(ctx, r, emit)
	}
	return response, err
}

func (m *Model) ask(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	body, err := m.body(r)
	if err != nil {
		return llm.Response{}, err
	}
	answer := answerBuilder{model: m, emit: emit, blocks: map[int]*block{}}
	if err := m.wire.Ask(ctx, "v1/messages", body, &answer); err != nil {
		return llm.Response{}, err
	}
	return answer.response(), nil
}

// Models lists the server's models, sorted: a free way to check that the server
// answers and that the key is valid.
func (m *Model) Models(ctx context.Context) ([]string, error) {
	return m.wire.Models(ctx, "v1/models")
}
