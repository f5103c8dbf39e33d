// Package llm is the contract between the agent loop and a language model.
package llm

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Model answers requests. It is safe for concurrent use.
type Model interface {
	// Infer asks the model once. It may call emit with pieces of the answer as
	// they arrive; the Response holds the whole answer. A TransientError may be
	// retried, any other error is final. If the context ends, its error is
	// returned.
	Infer(ctx context.Context, r Request, emit func(Delta)) (Response, error)
}

// Models finds models by the name a definition uses.
type Models interface {
	// Model returns the model of that name, or a NotFoundError that lists the
	// available ones.
	Model(name string) (Model, error)
}

// Priced is a model that knows its prices. A budget of money needs one.
type Priced interface {
	Cost(u session.Usage) session.Cost
}

// Offline marks models that need no network: a runtime in offline mode refuses
// all others.
type Offline interface {
	WorksOffline()
}

// TokenCounter is a model that can count tokens. The name of the counter changes
// when its counts change; an empty name means that it cannot count.
type TokenCounter interface {
	CountTokens(m session.Message) (tokens int, counter string)
}

// ContextLength is a model that knows how many tokens its input and output may
// have together. 0: not known.
type ContextLength interface {
	ContextLength() int
}

// Request is everything that is sent to a model. Messages is always a transcript
// that providers accept.
type Request struct {
	Model          string // the name in the definition
	System         string
	Messages       []session.Message
	Tools          []Tool
	Params         session.ModelParams
	ResponseFormat *session.ResponseFormat

	Agent     string // name of the definition
	SessionID string
	Inference int // how many inferences the session had before
	Attempt   int // 0, plus one for each retry
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments
}

// Delta is a piece of an answer.
type Delta struct {
	Text      string
	Reasoning string
	ToolCall  *session.ToolCall // with its arguments only once they are complete
}

// Response is a whole answer.
type Response struct {
	Content      session.Content
	ToolCalls    []session.ToolCall
	FinishReason string // stop, length, tool_calls, content_filter …
	Model        string // that answered; empty: not known
	Usage        session.Usage
	Cost         session.Cost // used if the model is not Priced
}

// CostOf returns what an answer cost: by the prices of its model, else what it
// says itself.
func CostOf(m Model, r Response) session.Cost {
	if priced, ok := m.(Priced); ok {
		return priced.Cost(r.Usage)
	}
	return max(r.Cost, 0)
}

// TransientError is a failure that a retry may solve: a rate limit, a lost
// connection, a server error. After is how long the server asked to wait; 0: it
// did not ask.
type TransientError struct {
	After time.Duration
	Err   error
}

func (e *TransientError) Error() string {
	if e.Err == nil {
		return "it may work later"
	}
	return e.Err.Error()
}
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
	return slices.Sorted(maps.Keys(m))
}

// Embedder turns texts into vectors that are close if the meanings are. It is
// safe for concurrent use.
type Embedder interface {
	// Name identifies the embedder: vectors of different names are never
	// compared.
	Name() string
	// Embed returns one vector of length 1 for each text, all with the same
	// dimension. A blank text has the zero vector. A TransientError may be
	// retried.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// QueryEmbedder is an embedder that embeds a question otherwise than a text that
// may answer it.
type QueryEmbedder interface {
	Embedder
	// EmbedQuery is Embed for one question.
	EmbedQuery(ctx context.Context, question string) ([]float32, error)
}

// Calibrated is an embedder that knows what its cosines mean. Recall measures
// those of other embedders.
type Calibrated interface {
	// Calibration is for one question and its vector: where the answer to a
	// question is likely to have been said, less similarity may be enough.
	Calibration(question string, vector []float32) Calibration
}

// Calibration says what the cosines of an embedder mean.
type Calibration struct {
	// Unrelated is a cosine that a question and a text that does not answer it
	// hardly reach.
	Unrelated float64
	// Related is a cosine that only texts of the same meaning reach.
	Related float64
}

// Score turns a cosine into a score: 0.5 where texts begin to be related, 1 where
// they mean the same.
func (c Calibration) Score(cosine float64) float64 {
	return min(max(0.5+0.5*(cosine-c.Unrelated)/(c.Related-c.Unrelated), 0), 1)
}

// Cosine returns the cosine that has a score.
func (c Calibration) Cosine(score float64) float64 {
	return min(max(c.Unrelated+(2*score-1)*(c.Related-c.Unrelated), 0), 1)
}
