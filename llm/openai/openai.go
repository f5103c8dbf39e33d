// Package openai implements the Chat Completions protocol, for OpenAI and the
// many servers with their own dialects of it (Ollama, vLLM, LM Studio,
// OpenRouter …).
package openai

import (
	"cmp"
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
	Provider string // for errors and Response.Model; default openai
	URL      string // default DefaultURL
	Key      string // empty: none is sent
	Header   http.Header

	// ReasoningField is the field for earlier reasoning, such as
	// reasoning_content. Empty: it is not sent.
	ReasoningField string
	// TellsCost says that usage.cost is reliable and in US dollars.
	TellsCost bool

	Client   *http.Client  // nil: http.DefaultTransport
	Idle     time.Duration // the longest pause in an answer; default 5 minutes
	MaxBytes int64         // of one answer; default 64 MiB
}

// Model is a model behind the Chat Completions protocol.
type Model struct {
	config  Config
	wire    *wire.Client
	dialect atomic.Pointer[dialect] // the last one that the server accepted
}

// New makes a model. It does not contact the server.
func New(c Config) (*Model, error) {
	c.Provider, c.URL = cmp.Or(c.Provider, "openai"), cmp.Or(c.URL, DefaultURL)
	client, err := wire.New(wire.Config{
		Provider: c.Provider, Model: c.Model, URL: c.URL, Header: authorised(c.Header, c.Key),
		Client: c.Client, Idle: c.Idle, MaxBytes: c.MaxBytes,
	})
	if err != nil {
		return nil, err
	}
	m := &Model{config: c, wire: client}
	m.dialect.Store(&dialect{stream: true, usage: true, completionTokens: isOpenAI(c.URL)})
	return m, nil
}

func authorised(header http.Header, key string) http.Header {
	if key != "" {
		key = "Bearer " + key
	}
	return wire.WithHeader(header, "Authorization", key)
}

// isOpenAI reports OpenAI's own server, the only one that renamed a field.
func isOpenAI(address string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.HasSuffix(u.Hostname(), ".openai.com")
}

// Infer asks the server once. If it refuses a part of the protocol, such as
// streaming, it is asked again without it, now and for later requests.
func (m *Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	current := *m.dialect.Load()
	for {
		response, err := m.ask(ctx, r, current, emit)
		next, other := current.fallback(err)
		if err == nil {
			m.dialect.Store(&current)
		}
		if err == nil || !other {
			return response, err
		}
		current = next
	}
}

func (m *Model) ask(ctx context.Context, r llm.Request, d dialect, emit func(llm.Delta)) (llm.Response, error) {
	body, err := m.body(r, d)
	if err != nil {
		return llm.Response{}, err
	}
	answer := answerBuilder{model: m, emit: emit}
	if err := m.wire.Ask(ctx, "chat/completions", body, &answer); err != nil {
		return llm.Response{}, err
	}
	return answer.response(), nil
}

// Models lists the server's models, sorted: a free way to check that the server
// answers and, at most servers, that the key is valid.
func (m *Model) Models(ctx context.Context) ([]string, error) {
	return m.wire.Models(ctx, "models")
}
