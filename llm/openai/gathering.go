package openai

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// gathering puts an answer together from its pieces.
type gathering struct {
	model *Model
	emit  func(llm.Delta)

	text      strings.Builder
	reasoning strings.Builder
	details   []*detail
	calls     []*gathered
	refused   bool
	finish    string
	answered  string // the model that did
	usage     usage
}

// gathered is a call in the making.
type gathered struct {
	index     int // -1: the server does not number its calls
	id, name  string
	arguments strings.Builder
}

// Whole reads an answer that came in one piece.
func (g *gathering) Whole(a *wire.Answer) error {
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

// Stream reads an answer that comes in pieces. Once it gave its reason to end
// it is an answer, whatever becomes of the rest of the stream: it is paid for.
func (g *gathering) Stream(a *wire.Answer) error {
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

// complete refuses a stream that ended before the answer did. Servers that
// give no reason for the end say at least that it is one.
func (g *gathering) complete(said bool) error {
	switch {
	case g.finish != "":
		return nil
	case said && !g.empty():
		return nil
	case g.empty():
		return g.model.wire.Transient("its answer is empty")
	}
	return g.model.wire.Transient("its answer broke off")
}

func (g *gathering) empty() bool {
	return g.text.Len() == 0 && g.reasoning.Len() == 0 && len(g.calls) == 0
}

// add takes one piece.
func (g *gathering) add(raw []byte) error {
	c, err := decode(raw)
	if err != nil {
		return g.model.wire.Final("its answer is not of this protocol")
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
			continue // one answer was asked for
		}
		if choice.FinishReason != "" {
			g.finish = string(choice.FinishReason)
		}
		if choice.Usage != nil {
			g.usage = *choice.Usage
		}
		for _, s := range []*said{choice.Delta, choice.Message} {
			if s != nil {
				g.hear(s)
			}
		}
	}
	return nil
}

func (g *gathering) hear(s *said) {
	thought := string(s.ReasoningContent)
	if thought == "" {
		thought = string(s.Reasoning)
	}
	if thought += s.Content.thoughts; thought != "" {
		g.reasoning.WriteString(thought)
		g.tell(llm.Delta{Reasoning: thought})
	}
	text := s.Content.text
	if s.Refusal != "" {
		g.refused = true
		text += string(s.Refusal)
	}
	if text != "" {
		g.text.WriteString(text)
		g.tell(llm.Delta{Text: text})
	}
	g.details = addDetails(g.details, s.ReasoningDetails)
	for _, piece := range s.ToolCalls {
		g.piece(piece)
	}
}

// piece adds a piece to the call it belongs to.
func (g *gathering) piece(p callPiece) {
	id, name := string(p.ID), string(p.Function.Name)
	call := g.find(p)
	if call == nil {
		call = &gathered{index: -1, id: id}
		if p.Index != nil {
			call.index = *p.Index
		}
		g.calls = append(g.calls, call)
	}
	begun := call.name != ""
	switch {
	case call.name == "":
		call.name = name
	case name != call.name && call.arguments.Len() == 0: // a name in pieces
		call.name += name
	}
	if call.id == "" {
		call.id = id
	}
	call.arguments.WriteString(string(p.Function.Arguments))
	if !begun && call.name != "" {
		g.tell(llm.Delta{ToolCall: &session.ToolCall{ID: call.id, Name: call.name}})
	}
}

// find is the call that a piece continues, nil where it begins one. Servers
// number their calls, or give all of them one number, or none: what has a name
// and an id of its own is a call of its own.
func (g *gathering) find(p callPiece) *gathered {
	id, name := string(p.ID), string(p.Function.Name)
	for _, call := range slices.Backward(g.calls) {
		switch {
		case p.Index != nil && call.index != *p.Index: // it has another number
		case id != "" && call.id != "" && id != call.id && name != "": // it is a call of its own
		case p.Index != nil, id != "" && id == call.id, id == "" && name == "":
			return call
		}
	}
	return nil
}

func (g *gathering) tell(d llm.Delta) {
	if g.emit != nil {
		g.emit(d)
	}
}

// response is the whole answer.
func (g *gathering) response() llm.Response {
	var content session.Content
	if g.reasoning.Len() > 0 {
		content = append(content, session.Part{Type: session.PartReasoning, Text: g.reasoning.String()})
	}
	if part, ok := detailsOf(g.model.config.Provider, g.details); ok {
		content = append(content, part)
	}
	if g.text.Len() > 0 {
		content = append(content, session.Part{Type: session.PartText, Text: g.text.String()})
	}
	r := llm.Response{Content: content, FinishReason: g.reason(), Usage: g.usage.session()}
	for _, c := range g.calls {
		name := c.name
		if name == "" {
			name = "unnamed" // the loop answers that there is no such tool
		}
		call := session.ToolCall{ID: c.id, Name: name, Arguments: llm.Arguments(c.arguments.String())}
		g.tell(llm.Delta{ToolCall: &call})
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

// reason is why the answer ended, in the words of the contract.
func (g *gathering) reason() string {
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

// session is the usage in the session's words: what was read from the cache is
// part of the input, reasoning part of the output.
func (u usage) session() session.Usage {
	cached := max(u.PromptDetails.Cached, u.CacheHit)
	return session.Usage{
		Input: int64(u.Prompt), Output: int64(u.Completion),
		CacheRead: cached.Of(u.Prompt), CacheWrite: u.PromptDetails.CacheWrite.Of(u.Prompt - min(cached, u.Prompt)),
		Reasoning: u.CompletionDetails.Reasoning.Of(u.Completion),
	}
}
