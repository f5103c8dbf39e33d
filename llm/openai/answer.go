package openai

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// answerBuilder builds an answer from its pieces.
type answerBuilder struct {
	model *Model
	emit  func(llm.Delta)

	text      strings.Builder
	reasoning strings.Builder
	details   []*detail
	calls     []*callBuilder
	refused   bool
	finish    string
	answered  string // the model that answered
	usage     usage
}

// callBuilder builds one call.
type callBuilder struct {
	index     int // -1: the server does not number its calls
	id, name  string
	arguments strings.Builder
}

// Whole reads an answer that is one document.
func (g *answerBuilder) Whole(a *wire.Answer) error {
	raw, err := a.All()
	if err != nil {
		return err
	}
	if err := g.add(raw); err != nil {
		return err
	}
	if g.finish == "" && g.empty() {
		return g.model.wire.Final("its answer has no choices")
	}
	return nil
}

// Stream reads an answer in pieces. With a finish reason it is complete, whatever
// happens to the rest of the stream: it is paid for.
func (g *answerBuilder) Stream(a *wire.Answer) error {
	for {
		raw, err := a.Next()
		switch {
		case errors.Is(err, io.EOF):
			return g.complete(a.Done())
		case err != nil && g.finish != "":
			return nil
		case err != nil:
			return err
		}
		if err := g.add(raw); err != nil {
			return err
		}
		if g.finish != "" {
			a.Ending()
		}
	}
}

// complete refuses a stream that ended before the answer did. Servers without a
// finish reason at least announce the end.
func (g *answerBuilder) complete(announced bool) error {
	switch {
	case g.finish != "":
		return nil
	case announced && !g.empty():
		return nil
	case g.empty():
		return g.model.wire.Transient("its answer is empty")
	}
	return g.model.wire.Transient("its answer was cut off")
}

func (g *answerBuilder) empty() bool {
	return g.text.Len() == 0 && g.reasoning.Len() == 0 && len(g.calls) == 0
}

func (g *answerBuilder) add(raw []byte) error {
	c, err := decode(raw)
	if err != nil {
		return g.model.wire.Final("its answer does not follow the Chat Completions protocol")
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return g.model.wire.Fault(raw)
	}
	if c.Model != "" {
		g.answered = string(c.Model)
	}
	if c.Usage != nil {
		g.usage = *c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one answer was requested
		}
		if choice.FinishReason != "" {
			g.finish = string(choice.FinishReason)
		}
		if choice.Usage != nil {
			g.usage = *choice.Usage
		}
		for _, s := range []*messageDelta{choice.Delta, choice.Message} {
			if s != nil {
				g.addDelta(s)
			}
		}
	}
	return nil
}

func (g *answerBuilder) addDelta(s *messageDelta) {
	thought := string(cmp.Or(s.ReasoningContent, s.Reasoning))
	if thought += s.Content.thoughts; thought != "" {
		g.reasoning.WriteString(thought)
		g.send(llm.Delta{Reasoning: thought})
	}
	text := s.Content.text
	if s.Refusal != "" {
		g.refused = true
		text += string(s.Refusal)
	}
	if text != "" {
		g.text.WriteString(text)
		g.send(llm.Delta{Text: text})
	}
	g.details = addDetails(g.details, s.ReasoningDetails)
	for _, piece := range s.ToolCalls {
		g.addCallPiece(piece)
	}
}

// addCallPiece adds a piece to its call.
func (g *answerBuilder) addCallPiece(p callPiece) {
	id, name := string(p.ID), string(p.Function.Name)
	call := g.findCall(p)
	if call == nil {
		call = &callBuilder{index: -1, id: id}
		if p.Index != nil {
			call.index = *p.Index
		}
		g.calls = append(g.calls, call)
	}
	announced := call.name != ""
	switch {
	case call.name == "":
		call.name = name
	case name != call.name && call.arguments.Len() == 0: // a name in pieces
		call.name += name
	}
	call.id = cmp.Or(call.id, id)
	call.arguments.WriteString(string(p.Function.Arguments))
	if !announced && call.name != "" {
		g.send(llm.Delta{ToolCall: &session.ToolCall{ID: call.id, Name: call.name}})
	}
}

// findCall returns the call that a piece continues; nil if it starts a new one.
// Servers number their calls, or give all the same number, or none: a piece with
// a name and a new id is a new call.
func (g *answerBuilder) findCall(p callPiece) *callBuilder {
	id, name := string(p.ID), string(p.Function.Name)
	for _, call := range slices.Backward(g.calls) {
		switch {
		case p.Index != nil && call.index != *p.Index: // another number
		case id != "" && call.id != "" && id != call.id && name != "": // a new call
		case p.Index != nil, id != "" && id == call.id, id == "" && name == "":
			return call
		}
	}
	return nil
}

func (g *answerBuilder) send(d llm.Delta) {
	if g.emit != nil {
		g.emit(d)
	}
}

func (g *answerBuilder) response() llm.Response {
	var content session.Content
	if g.reasoning.Len() > 0 {
		content = append(content, session.Part{Type: session.PartReasoning, Text: g.reasoning.String()})
	}
	if part, ok := detailsPartOf(g.model.config.Provider, g.details); ok {
		content = append(content, part)
	}
	if g.text.Len() > 0 {
		content = append(content, session.Part{Type: session.PartText, Text: g.text.String()})
	}
	r := llm.Response{Content: content, FinishReason: g.reason(), Usage: g.usage.session()}
	for _, c := range g.calls {
		// For an unnamed call the agent loop answers that there is no such tool.
		call := session.ToolCall{ID: c.id, Name: cmp.Or(c.name, "unnamed"), Arguments: llm.Arguments(c.arguments.String())}
		g.send(llm.Delta{ToolCall: &call})
		r.ToolCalls = append(r.ToolCalls, call)
	}
	if g.answered != "" {
		r.Model = g.model.config.Provider + "/" + g.answered
	}
	if cost := g.usage.Cost; g.model.config.TellsCost && cost > 0 && cost < 1e6 {
		r.Cost = session.Dollars(cost)
	}
	return r
}

// reason returns the finish reason in the words of llm.Response.
func (g *answerBuilder) reason() string {
	switch {
	case g.refused:
		return "refusal"
	case len(g.calls) > 0 && (g.finish == "stop" || g.finish == "function_call" || g.finish == ""):
		return "tool_calls"
	case g.finish == "":
		return "stop"
	case g.finish == "max_tokens":
		return "length"
	}
	return g.finish
}

// session converts the usage: tokens from the cache are part of the input,
// reasoning is part of the output.
func (u usage) session() session.Usage {
	cached := max(u.PromptDetails.Cached, u.CacheHit)
	return session.Usage{
		Input: int64(u.Prompt), Output: int64(u.Completion),
		CacheRead: cached.Of(u.Prompt), CacheWrite: u.PromptDetails.CacheWrite.Of(u.Prompt - min(cached, u.Prompt)),
		Reasoning: u.CompletionDetails.Reasoning.Of(u.Completion),
	}
}
