package anthropic

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// event is an event of a stream, or a whole answer, which is a message.
type event struct {
	Type    wire.Word       `json:"type"`
	Index   int             `json:"index"`
	Message *message        `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   delta           `json:"delta"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type message struct {
	Model      wire.Word         `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason wire.Word         `json:"stop_reason"`
	Usage      json.RawMessage   `json:"usage"`
}

type delta struct {
	Type        wire.Word `json:"type"`
	Text        wire.Word `json:"text"`
	Thinking    wire.Word `json:"thinking"`
	Signature   wire.Word `json:"signature"`
	PartialJSON wire.Word `json:"partial_json"`
	StopReason  wire.Word `json:"stop_reason"`
}

// usage is told twice: the end knows better than the beginning, of what it
// names.
type usage struct {
	Input      wire.Count `json:"input_tokens"`
	Output     wire.Count `json:"output_tokens"`
	CacheWrite wire.Count `json:"cache_creation_input_tokens"`
	CacheRead  wire.Count `json:"cache_read_input_tokens"`
	Details    struct {
		Thinking wire.Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// block is a content block in the making.
type block struct {
	Type      wire.Word       `json:"type"`
	ID        wire.Word       `json:"id"`
	Name      wire.Word       `json:"name"`
	Text      wire.Word       `json:"text"`
	Thinking  wire.Word       `json:"thinking"`
	Signature wire.Word       `json:"signature"`
	Input     json.RawMessage `json:"input"`

	raw       json.RawMessage // as it began
	said      strings.Builder // text or thoughts
	arguments strings.Builder
}

// gathering puts an answer together from its pieces.
type gathering struct {
	model *Model
	emit  func(llm.Delta)

	blocks   map[int]*block
	answered string // the model that did
	finish   string
	stopped  bool
	usage    usage
}

// Whole reads an answer that came in one piece.
func (g *gathering) Whole(a *wire.Answer) error {
	raw, err := a.All()
	if err != nil {
		return err
	}
	var kind struct {
		Type wire.Word `json:"type"`
	}
	var m message
	if mistyped(json.Unmarshal(raw, &kind)) || mistyped(json.Unmarshal(raw, &m)) {
		return g.model.wire.Final("its answer is not of this protocol")
	}
	switch kind.Type {
	case "error":
		return g.model.wire.Fault(raw)
	case "message":
		g.begin(&m)
		return nil
	}
	return g.model.wire.Final("its answer is not of this protocol")
}

// mistyped reports JSON that is something else altogether. A field of another
// type than expected is as if it were not there: no reason to lose an answer.
func mistyped(err error) bool {
	var field *json.UnmarshalTypeError
	return err != nil && (!errors.As(err, &field) || field.Field == "")
}

// Stream reads an answer that comes in pieces. Once it gave its reason to end
// it is an answer, whatever becomes of the rest of the stream: it is paid for.
func (g *gathering) Stream(a *wire.Answer) error {
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
func (g *gathering) complete() error {
	switch {
	case g.finish != "" || g.stopped && len(g.blocks) > 0:
		return nil
	case len(g.blocks) == 0:
		return g.model.wire.Transient("its answer is empty")
	}
	return g.model.wire.Transient("its answer broke off")
}

// add takes one event. Events of unknown type are to be ignored.
func (g *gathering) add(raw []byte) error {
	var e event
	if mistyped(json.Unmarshal(raw, &e)) {
		return g.model.wire.Final("its answer is not of this protocol")
	}
	switch e.Type {
	case "error":
		return g.model.wire.Fault(raw)
	case "message_start":
		if e.Message != nil {
			g.begin(e.Message)
		}
	case "content_block_start":
		g.open(e.Index, e.Block)
	case "content_block_delta":
		g.hear(e.Index, e.Delta)
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

// begin takes a message: the empty one that a stream starts with, or all of it.
func (g *gathering) begin(m *message) {
	g.answered = string(m.Model)
	g.count(m.Usage)
	g.finish = string(m.StopReason)
	for i, raw := range m.Content {
		g.open(i, raw)
	}
}

// count takes what usage is told and leaves the rest as it was.
func (g *gathering) count(raw json.RawMessage) {
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, &g.usage) // counts take anything; the rest is not told
	}
}

func (g *gathering) open(index int, raw json.RawMessage) {
	b := &block{raw: slices.Clone(raw)}
	if json.Unmarshal(raw, b) != nil {
		return // it is no block
	}
	g.blocks[index] = b
	switch b.Type {
	case "tool_use":
		g.tell(llm.Delta{ToolCall: &session.ToolCall{ID: string(b.ID), Name: b.name()}})
	case "text", "thinking":
		g.hear(index, delta{Text: b.Text, Thinking: b.Thinking})
	}
}

func (g *gathering) hear(index int, d delta) {
	b := g.blocks[index]
	if b == nil { // some servers do not announce a block of text
		b = &block{Type: "text"}
		if d.Thinking != "" || d.Signature != "" {
			b.Type = "thinking"
		}
		g.blocks[index] = b
	}
	b.said.WriteString(string(d.Text + d.Thinking))
	b.arguments.WriteString(string(d.PartialJSON))
	if d.Signature != "" {
		b.Signature = d.Signature
	}
	if d.Text != "" || d.Thinking != "" {
		g.tell(llm.Delta{Text: string(d.Text), Reasoning: string(d.Thinking)})
	}
}

func (g *gathering) tell(d llm.Delta) {
	if g.emit != nil {
		g.emit(d)
	}
}

// response is the whole answer.
func (g *gathering) response() llm.Response {
	r := llm.Response{FinishReason: reason(g.finish), Usage: g.usage.session()}
	indexes := make([]int, 0, len(g.blocks))
	for i := range g.blocks {
		indexes = append(indexes, i)
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		b := g.blocks[i]
		if b.Type == "tool_use" {
			call := session.ToolCall{ID: string(b.ID), Name: b.name(), Arguments: b.input()}
			g.tell(llm.Delta{ToolCall: &call})
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

// name is what the call is for. The loop answers that there is no such tool
// where the server did not say.
func (b *block) name() string {
	if b.Name == "" {
		return "unnamed"
	}
	return string(b.Name)
}

// input is the arguments of a call: streamed, or there from the beginning.
func (b *block) input() json.RawMessage {
	if b.arguments.Len() > 0 {
		return llm.Arguments(b.arguments.String())
	}
	return llm.Arguments(string(b.Input))
}

// part is the block as a session keeps it. Blocks of a type the session does
// not know are kept whole, so that they can be sent back.
func (b *block) part() (session.Part, bool) {
	switch b.Type {
	case "text":
		return session.Part{Type: session.PartText, Text: b.said.String()}, b.said.Len() > 0
	case "thinking":
		return session.Part{Type: session.PartReasoning, Text: b.said.String(), Signature: string(b.Signature)}, b.said.Len() > 0 || b.Signature != ""
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

// reason is why the answer ended, in the words of the contract.
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

// session is the usage in the session's words: the input is all of it, and
// what the cache had or took is part of it.
func (u usage) session() session.Usage {
	return session.Usage{
		Input: int64(u.Input + u.CacheRead + u.CacheWrite), Output: int64(u.Output),
		CacheRead: int64(u.CacheRead), CacheWrite: int64(u.CacheWrite), Reasoning: u.Details.Thinking.Of(u.Output),
	}
}
