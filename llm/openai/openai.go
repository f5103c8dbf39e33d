// Package openai speaks the Chat Completions protocol: to OpenAI, and to the
// many servers that speak it too (Ollama, vLLM, LM Studio, OpenRouter …), each
// in its own dialect.
package openai

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
)

// DefaultURL is OpenAI's own server.
const DefaultURL = "https://api.openai.com/v1"

// Config is one model on one server. Only Model is required.
type Config struct {
	Model    string // as the server calls it
	Provider string // in errors, and before the name of the model that answered; default openai
	URL      string // default DefaultURL
	Key      string // empty: none is sent
	Header   http.Header

	// ReasoningField is where the server wants earlier reasoning back, such as
	// reasoning_content. Empty: it is not sent back.
	ReasoningField string
	// TellsCost says that usage.cost is in US dollars and can be believed.
	TellsCost bool

	Client   *http.Client  // nil: http.DefaultTransport
	Idle     time.Duration // longest silence of the server; default 5 minutes
	MaxBytes int64         // of one answer; default 64 MiB
}

// Model is a model behind the Chat Completions protocol.
type Model struct {
	config  Config
	wire    *wire.Client
	dialect atomic.Pointer[dialect] // the one the server was last content with
}

// New makes a model. Nothing is asked of the server yet.
func New(c Config) (*Model, error) {
	if c.Provider == "" {
		c.Provider = "openai"
	}
	if c.URL == "" {
		c.URL = DefaultURL
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
	m := &Model{config: c, wire: client}
	m.dialect.Store(&dialect{stream: true, usage: true, completionTokens: ownServer(c.URL)})
	return m, nil
}

// ownServer reports OpenAI's server, which alone has renamed a field.
func ownServer(address string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.HasSuffix(u.Hostname(), ".openai.com")
}

// Infer asks the server once. A server that refuses a part of the protocol
// (streaming, say) is asked again without it, and that is remembered.
func (m *Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	spoken := *m.dialect.Load()
	for {
		response, err := m.ask(ctx, r, spoken, emit)
		next, other := spoken.without(err)
		if err == nil {
			m.dialect.Store(&spoken)
		}
		if err == nil || !other {
			return response, err
		}
		spoken = next
	}
}

func (m *Model) ask(ctx context.Context, r llm.Request, d dialect, emit func(llm.Delta)) (llm.Response, error) {
	body, err := m.body(r, d)
	if err != nil {
		return llm.Response{}, err
	}
	said := gathering{model: m, emit: emit}
	if err := m.wire.Ask(ctx, "chat/completions", body, &said); err != nil {
		return llm.Response{}, err
	}
	return said.response(), nil
}

// Models lists what the server offers, sorted. It is a cheap way to see that
// the server is there and, at most servers, that the key is good.
func (m *Model) Models(ctx context.Context) ([]string, error) {
	return m.wire.Models(ctx, "models")
}
