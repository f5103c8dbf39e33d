package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// event is an event of a stream.
type event struct {
	Type    wire.String     `json:"type"`
	Index   int             `json:"index"`
	Message *message        `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   delta           `json:"delta"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type message struct {
	Model      wire.String       `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason wire.String       `json:"stop_reason"`
	Usage      json.RawMessage   `json:"usage"`
}

type delta struct {
	Type        wire.String `json:"type"`
	Text        wire.String `json:"text"`
	Thinking    wire.String `json:"thinking"`
	Signature   wire.String `json:"signature"`
	PartialJSON wire.String `json:"partial_json"`
	StopReason  wire.String `json:"stop_reason"`
}

// usage comes twice: values at the end replace those at the start.
type usage struct {
	Input      wire.Count `json:"input_tokens"`
	Output     wire.Count `json:"output_tokens"`
	CacheWrite wire.Count `json:"cache_creation_input_tokens"`
	CacheRead  wire.Count `json:"cache_read_input_tokens"`
	Details    struct {
		Thinking wire.Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// block is a content block that is being built.
type block struct {
	Type      wire.String     `json:"type"`
	ID        wire.String     `json:"id"`
	Name      wire.String     `json:"name"`
	Text      wire.String     `json:"text"`
	Thinking  wire.String     `json:"thinking"`
	Signature wire.String     `json:"signature"`
	Input     json.RawMessage `json:"input"`

	raw       json.RawMessage // as it started
	text      strings.Builder // or thinking
	arguments strings.Builder
}

// answerBuilder builds an answer from its pieces.
type answerBuilder struct {
	model *Model
	emit  func(llm.Delta)

	blocks   map[int]*block
	answered string // the model that answered
	finish   string
	stopped  bool
	usage    usage
}

// Whole reads an answer that is one document.
func (g *answerBuilder) Whole(a *wire.Answer) error {
	raw, err := a.All()
	if err != nil {
		return err
	}
	var kind struct {
		Type wire.String `json:"type"`
	}
	var m message
	if unreadable(json.Unmarshal(raw, &kind)) || unreadable(json.Unmarshal(raw, &m)) {
		return g.model.wire.Final(wrongProtocol)
	}
	switch kind.Type {
	case "error":
		return g.model.wire.Fault(raw)
	case "message":
		g.startMessage(&m)
		return nil
	}
	return g.model.wire.Final(wrongProtocol)
}

const wrongProtocol = "its answer does not follow the Messages protocol"

// unreadable reports JSON of a wrong form. A field of an unexpected type counts
// as missing: it must not lose an answer.
func unreadable(err error) bool {
	var field *json.UnmarshalTypeError
	return err != nil && (!errors.As(err, &field) || field.Field == "")
}

// Stream reads an answer in pieces. With a stop reason it is complete, whatever
// happens to the rest of the stream: it is paid for.
func (g *answerBuilder) Stream(a *wire.Answer) error {
	for !g.stopped {
		raw, err := a.Next()
		switch {
		case errors.Is(err, io.EOF):
			return g.complete()
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
	a.Over()
	return g.complete()
}

// complete refuses a stream that ended before the answer did.
func (g *answerBuilder) complete() error {
	switch {
	case g.finish != "" || g.stopped && len(g.blocks) > 0:
		return nil
	case len(g.blocks) == 0:
		return g.model.wire.Transient("its answer is empty")
	}
	return g.model.wire.Transient("its answer was cut off")
}

// add adds one event. The protocol says to ignore unknown types.
func (g *answerBuilder) add(raw []byte) error {
	var e event
	if unreadable(json.Unmarshal(raw, &e)) {
		return g.model.wire.Final(wrongProtocol)
	}
	switch e.Type {
	case "error":
		return g.model.wire.Fault(raw)
	case "message_start":
		if e.Message != nil {
			g.startMessage(e.Message)
		}
	case "content_block_start":
		g.startBlock(e.Index, e.Block)
	case "content_block_delta":
		g.addDelta(e.Index, e.Delta)
	case "message_delta":
		if e.Delta.StopReason != "" {
			g.finish = string(e.Delta.StopReason)
		}
		g.count(e.Usage)
	case "message_stop":
		g.stopped = true
	}
	return nil
}

// startMessage adds a message: the empty one at the start of a stream, or a whole
// one.
func (g *answerBuilder) startMessage(m *message) {
	g.answered = string(m.Model)
	g.count(m.Usage)
	g.finish = string(m.StopReason)
	for i, raw := range m.Content {
		g.startBlock(i, raw)
	}
}

// count replaces the numbers that raw has.
func (g *answerBuilder) count(raw json.RawMessage) {
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, &g.usage) // a Count accepts any value
	}
}

func (g *answerBuilder) startBlock(index int, raw json.RawMessage) {
	b := &block{raw: slices.Clone(raw)}
	if json.Unmarshal(raw, b) != nil {
		return // not a block
	}
	g.blocks[index] = b
	switch b.Type {
	case "tool_use":
		g.send(llm.Delta{ToolCall: &session.ToolCall{ID: string(b.ID), Name: b.name()}})
	case "text", "thinking":
		g.addDelta(index, delta{Text: b.Text, Thinking: b.Thinking})
	}
}

func (g *answerBuilder) addDelta(index int, d delta) {
	b := g.blocks[index]
	if b == nil { // some servers do not send content_block_start for text
		b = &block{Type: "text"}
		if d.Thinking != "" || d.Signature != "" {
			b.Type = "thinking"
		}
		g.blocks[index] = b
	}
	b.text.WriteString(string(d.Text + d.Thinking))
	b.arguments.WriteString(string(d.PartialJSON))
	if d.Signature != "" {
		b.Signature = d.Signature
	}
	if d.Text != "" || d.Thinking != "" {
		g.send(llm.Delta{Text: string(d.Text), Reasoning: string(d.Thinking)})
	}
}

func (g *answerBuilder) send(d llm.Delta) {
	if g.emit != nil {
		g.emit(d)
	}
}

func (g *answerBuilder) response() llm.Response {
	r := llm.Response{FinishReason: reason(g.finish), Usage: g.usage.session()}
	for _, i := range slices.Sorted(maps.Keys(g.blocks)) {
		b := g.blocks[i]
		if b.Type == "tool_use" {
			call := session.ToolCall{ID: string(b.ID), Name: b.name(), Arguments: b.input()}
			g.send(llm.Delta{ToolCall: &call})
			r.ToolCalls = append(r.ToolCalls, call)
			continue
		}
		if part, ok := b.part(); ok {
			r.Content = append(r.Content, part)
		}
	}
	if len(r.ToolCalls) > 0 && r.FinishReason == "stop" {
		r.FinishReason = "tool_calls"
	}
	if g.answered != "" {
		r.Model = g.model.config.Provider + "/" + g.answered
	}
	return r
}

// name returns the tool's name. For an unnamed call the agent loop answers that
// there is no such tool.
func (b *block) name() string { return string(cmp.Or(b.Name, "unnamed")) }

// input returns the arguments of a call: streamed, or in the first event.
func (b *block) input() json.RawMessage {
	return llm.Arguments(cmp.Or(b.arguments.String(), string(b.Input)))
}

// part converts the block for the session. Blocks of an unknown type are kept
// whole, so that they can be sent back.
func (b *block) part() (session.Part, bool) {
	switch b.Type {
	case "text":
		return session.Part{Type: session.PartText, Text: b.text.String()}, b.text.Len() > 0
	case "thinking":
		return session.Part{Type: session.PartReasoning, Text: b.text.String(), Signature: string(b.Signature)}, b.text.Len() > 0 || b.Signature != ""
	case "", session.PartImage, session.PartFile, session.PartAudio, session.PartReasoning:
		return session.Part{}, false
	}
	raw := b.raw
	if b.arguments.Len() > 0 {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return session.Part{}, false
		}
		fields["input"] = llm.Arguments(b.arguments.String())
		joined, err := session.JSON(fields)
		if err != nil {
			return session.Part{}, false
		}
		raw = joined
	}
	return session.Part{Type: string(b.Type), Raw: raw}, true
}

// reason returns the finish reason in the words of llm.Response.
func reason(stop string) string {
	switch stop {
	case "end_turn", "stop_sequence", "":
		return "stop"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	}
	return stop
}

// session converts the usage: the input includes tokens from and to the cache.
func (u usage) session() session.Usage {
	return session.Usage{
		Input: int64(u.Input + u.CacheRead + u.CacheWrite), Output: int64(u.Output),
		CacheRead: int64(u.CacheRead), CacheWrite: int64(u.CacheWrite), Reasoning: u.Details.Thinking.Of(u.Output),
	}
}
