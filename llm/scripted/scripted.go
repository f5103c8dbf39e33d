// Package scripted is a model that answers from a script. It has no state: the
// number of inferences of the session selects the reply, so a script continues
// at the right place after a save, a restart or a fork.
package scripted

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Reply is one answer. With Attempts, the n-th attempt of this inference gets
// the n-th of them; the last one repeats.
type Reply struct {
	Text         string
	Reasoning    string
	ToolCalls    []session.ToolCall
	FinishReason string
	Usage        session.Usage
	Cost         session.Cost
	Err          error
	Delay        time.Duration // before the answer; ends with the context
	Attempts     []Reply
}

// Config is a script. Past its end the last reply repeats; an empty script
// answers "ok".
type Config struct {
	Replies []Reply
	Agents  map[string][]Reply // by definition name, instead of Replies
	Strict  bool               // after the last reply: ErrScriptExhausted
}

// Model is a scripted model. It records every request it was sent.
type Model struct {
	config Config

	mu       sync.Mutex // guards requests
	requests []llm.Request
}

// New makes a model that answers with replies in order.
func New(replies ...Reply) *Model { return NewConfig(Config{Replies: replies}) }

// NewConfig makes a model that follows a script.
func NewConfig(c Config) *Model { return &Model{config: c} }

// WorksOffline makes the model an llm.Offline.
func (m *Model) WorksOffline() {}

// Requests returns all requests in order.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Infer answers with the reply for this inference.
func (m *Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	m.mu.Lock()
	m.requests = append(m.requests, r)
	m.mu.Unlock()

	reply, err := m.reply(r)
	if err != nil {
		return llm.Response{}, err
	}
	if err := wait(ctx, reply.Delay); err != nil {
		return llm.Response{}, err
	}
	if reply.Err != nil {
		return llm.Response{}, reply.Err
	}
	if emit != nil && (reply.Reasoning != "" || reply.Text != "") {
		emit(llm.Delta{Reasoning: reply.Reasoning, Text: reply.Text})
	}
	return reply.response(), nil
}

func (m *Model) reply(r llm.Request) (Reply, error) {
	script, ok := m.config.Agents[r.Agent]
	if !ok {
		script = m.config.Replies
	}
	if r.Inference >= len(script) && m.config.Strict {
		return Reply{}, session.ErrScriptExhausted
	}
	if len(script) == 0 {
		return Reply{Text: "ok"}, nil
	}
	reply := script[min(r.Inference, len(script)-1)]
	if n := len(reply.Attempts); n > 0 {
		reply = reply.Attempts[min(r.Attempt, n-1)]
	}
	return reply, nil
}

func (r Reply) response() llm.Response {
	finish := r.FinishReason
	if finish == "" {
		finish = "stop"
		if len(r.ToolCalls) > 0 {
			finish = "tool_calls"
		}
	}
	var content session.Content
	if r.Reasoning != "" {
		content = append(content, session.Part{Type: session.PartReasoning, Text: r.Reasoning})
	}
	if r.Text != "" {
		content = append(content, session.Part{Type: session.PartText, Text: r.Text})
	}
	return llm.Response{
		Content: content, ToolCalls: slices.Clone(r.ToolCalls), FinishReason: finish, Usage: r.Usage, Cost: r.Cost,
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
