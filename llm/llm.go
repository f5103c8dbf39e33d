// Package llm is the contract between the agent loop and a language model.
package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Model answers requests. It is safe for concurrent use.
type Model interface {
	// Infer asks the model once. Pieces of the answer may be handed to emit as
	// they arrive; the Response holds all of it. A TransientError may be
	// retried, any other error is final. The context's end is the context's
	// error.
	Infer(ctx context.Context, r Request, emit func(Delta)) (Response, error)
}

// Models finds models by the name a definition uses.
type Models interface {
	// Model is the model of that name, or a NotFoundError that lists the
	// available ones.
	Model(name string) (Model, error)
}

// Priced is a model that knows what it costs. A budget of money needs it.
type Priced interface {
	Cost(u session.Usage) session.Cost
}

// Offline marks models that never leave the machine: a runtime that works
// offline refuses all others.
type Offline interface {
	WorksOffline()
}

// TokenCounter is a model that can count. The name of its counter tells one
// from another; an empty one says that it cannot, after all.
type TokenCounter interface {
	CountTokens(m session.Message) (tokens int, counter string)
}

// ContextLength is a model that knows how many tokens it can take in and give
// out together. 0 is not known.
type ContextLength interface {
	ContextLength() int
}

// Request is everything a model is told. Messages is always a transcript that
// providers accept.
type Request struct {
	Model          string // the name it was resolved by
	System         string
	Messages       []session.Message
	Tools          []Tool
	Params         session.ModelParams
	ResponseFormat *session.ResponseFormat

	Agent     string // name of the definition
	SessionID string
	Inference int // inferences the session has had before this one
	Attempt   int // 0, then one more for each retry
}

// Tool is a tool as a model is shown it.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments
}

// Delta is a piece of an answer.
type Delta struct {
	Text      string
	Reasoning string
	ToolCall  *session.ToolCall // complete as far as it has come: arguments are nil or whole
}

// Response is a whole answer.
type Response struct {
	Content      session.Content
	ToolCalls    []session.ToolCall
	FinishReason string // stop, length, tool_calls, content_filter …
	Model        string // the one that answered, where it says so
	Usage        session.Usage
	Cost         session.Cost // used where the model is not Priced
}

// TransientError is a failure that may pass: a full queue, a lost connection,
// a server's fault. After is how long the server asked to wait, 0 if it did not.
type TransientError struct {
	After time.Duration
	Err   error
}

func (e *TransientError) Error() string { return fmt.Sprintf("for now: %v", e.Err) }
func (e *TransientError) Unwrap() error { return e.Err }

// Map is a fixed set of models by name.
type Map map[string]Model

// Model finds a model by its exact name.
func (m Map) Model(name string) (Model, error) {
	if model, ok := m[name]; ok {
		return model, nil
	}
	return nil, &session.NotFoundError{What: "model", ID: name, Available: m.Names()}
}

// Names lists the models, sorted.
func (m Map) Names() []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Embedder turns texts into vectors by which their meanings can be compared.
// It is safe for concurrent use.
type Embedder interface {
	// Name tells one embedder from another: vectors of two are never compared.
	Name() string
	// Embed is one vector of length 1 for each text, all of one dimension. A
	// blank text has the zero vector. A TransientError may be tried again.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
