package memory

import (
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Size is how many tokens a request has.
type Size struct {
	Messages int
	Other    int // system prompt and tools
	Answer   int // room that it leaves for the answer
	Capacity int // of the model, the answer included; 0: not known
}

// Tokens counts the whole request, without room for the answer.
func (s Size) Tokens() int { return s.Messages + s.Other }

// Room is how many tokens a request may have; 0: not known.
func (s Size) Room() int {
	if s.Capacity == 0 {
		return 0
	}
	return max(s.Capacity-s.Answer, 1)
}

// Measure counts the tokens of a request to a model.
func (w With) Measure(model llm.Model, r llm.Request) Size {
	var size Size
	for _, m := range r.Messages {
		size.Messages += w.Tokens(m)
	}
	text := r.System
	for _, t := range r.Tools {
		text += t.Name + t.Description + string(t.Schema)
	}
	if text != "" {
		size.Other = w.Tokens(session.Message{Role: session.RoleSystem, Content: session.Text(text)})
	}
	if r.Params.MaxOutputTokens != nil {
		size.Answer = *r.Params.MaxOutputTokens
	}
	if known, ok := model.(llm.ContextLength); ok {
		size.Capacity = known.ContextLength()
	}
	return size
}

// CountBy returns how a model counts the tokens of a message, or nil where it
// cannot. What it does not count itself is estimated.
func CountBy(model llm.Model) func(session.Message) int {
	counter, ok := model.(llm.TokenCounter)
	if !ok {
		return nil
	}
	return func(m session.Message) int {
		if n, by := counter.CountTokens(m); by != "" {
			return n
		}
		return Estimate(m)
	}
}
