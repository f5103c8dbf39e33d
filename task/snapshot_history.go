package task

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"

	blockText       = "text"
	blockToolUse    = "tool_use"
	blockToolResult = "tool_result"
	blockImage      = "image"
)

// passage is one message of a conversationHistory.
type passage struct {
	role   string
	text   *string // content that is a string; blocks is then empty
	blocks []block
	raw    json.RawMessage // as it came, as long as nothing of it was dropped

	emptied bool // all of it was dropped
}

// block is one piece of content.
type block struct {
	kind string
	id   string // of a call, or of the call that a result answers
	name string // of a call
	raw  json.RawMessage
}

func textPassage(role, text string) passage { return passage{role: role, text: &text} }

func (t passage) hasResults() bool {
	for _, b := range t.blocks {
		if b.kind == blockToolResult {
			return true
		}
	}
	return false
}

// keeping is the turn with those blocks that keep accepts.
func (t passage) keeping(keep func(int, block) bool) passage {
	if t.text != nil || len(t.blocks) == 0 {
		return t
	}
	var kept []block
	for i, b := range t.blocks {
		if keep(i, b) {
			kept = append(kept, b)
		}
	}
	if len(kept) == len(t.blocks) {
		return t
	}
	return passage{role: t.role, blocks: kept, emptied: len(kept) == 0}
}

// readHistory reads a conversationHistory.
func readHistory(value json.RawMessage) ([]passage, error) {
	list, ok := array(value)
	if !ok {
		return nil, &fieldError{"conversationHistory", "is not a list"}
	}
	turns := make([]passage, len(list))
	for i, value := range list {
		t, err := readPassage(value)
		if err != nil {
			return nil, &fieldError{fmt.Sprintf("conversationHistory[%d]%s", i, err.field), err.reason}
		}
		turns[i] = t
	}
	return turns, nil
}

func readPassage(value json.RawMessage) (passage, *fieldError) {
	o, err := readObject(value)
	if err != nil {
		return passage{}, &fieldError{"", err.Error()}
	}
	t := passage{role: o.text("role"), raw: value}
	switch session.Role(t.role) {
	case session.RoleUser, session.RoleAssistant, session.RoleSystem, session.RoleDeveloper:
	default:
		return passage{}, &fieldError{".role", fmt.Sprintf("%q is neither user nor assistant", t.role)}
	}
	content, ok := o.get("content")
	if !ok {
		return passage{}, &fieldError{".content", "is missing"}
	}
	var text *string
	if json.Unmarshal(content, &text) == nil && text != nil {
		t.text = text
		return t, nil
	}
	list, ok := array(content)
	if !ok {
		return passage{}, &fieldError{".content", "is neither a text nor a list of blocks"}
	}
	for i, value := range list {
		b, err := readBlock(value)
		if err != nil {
			return passage{}, &fieldError{fmt.Sprintf(".content[%d]", i), err.Error()}
		}
		t.blocks = append(t.blocks, b)
	}
	return t, nil
}

func readBlock(value json.RawMessage) (block, error) {
	o, err := readObject(value)
	if err != nil {
		return block{}, err
	}
	b := block{kind: o.text("type"), raw: value}
	switch b.kind {
	case "":
		return block{}, &fieldError{"type", "is missing"}
	case blockToolUse:
		b.id, b.name = o.text("id"), o.text("name")
	case blockToolResult:
		b.id = o.text("tool_use_id")
	}
	return b, nil
}

// JSON is the turn as a snapshot has it.
func (t passage) JSON() json.RawMessage {
	if t.raw != nil {
		return t.raw
	}
	content := json.RawMessage("[]")
	switch {
	case t.text != nil:
		content = raw(*t.text)
	case len(t.blocks) > 0:
		content = []byte{'['}
		for i, b := range t.blocks {
			if i > 0 {
				content = append(content, ',')
			}
			content = append(content, b.raw...)
		}
		content = append(content, ']')
	}
	return object{{"role", raw(t.role)}, {"content", content}}.JSON()
}

// words are the text of a turn.
func (t passage) words() string {
	if t.text != nil {
		return *t.text
	}
	var texts []string
	for _, b := range t.blocks {
		if b.kind == blockText {
			texts = append(texts, readText(b.raw))
		}
	}
	return strings.Join(texts, "\n")
}

func readText(value json.RawMessage) string {
	o, err := readObject(value)
	if err != nil {
		return ""
	}
	return o.text("text")
}

// textBlock is a block of words.
func textBlock(text string) block {
	return block{kind: blockText, raw: object{{"type", raw(blockText)}, {"text", raw(text)}}.JSON()}
}

func callBlock(id, name string, input json.RawMessage) block {
	return block{kind: blockToolUse, id: id, name: name, raw: object{
		{"type", raw(blockToolUse)}, {"id", raw(id)}, {"name", raw(name)}, {"input", input},
	}.JSON()}
}

func resultBlock(r *session.ToolResult, bare bool) block {
	o := object{{"type", raw(blockToolResult)}, {"tool_use_id", raw(r.CallID)}, {"content", raw(r.Content)}}
	if r.IsError || !bare {
		o = append(o, member{"is_error", raw(r.IsError)})
	}
	return block{kind: blockToolResult, id: r.CallID, raw: o.JSON()}
}

// imageBlock has the size that was noted, else that of its data. A noted -1 is
// none.
func imageBlock(p session.Part, noted *int64) block {
	o := object{{"type", raw(blockImage)}, {"mimeType", raw(p.MediaType)}}
	size := int64(-1)
	if p.Data != "" {
		o = append(o, member{"data", raw(p.Data)})
		size = int64(base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(p.Data, "="))))
	}
	if p.URL != "" {
		o = append(o, member{"url", raw(p.URL)})
	}
	if noted != nil {
		size = *noted
	}
	if size >= 0 {
		o = append(o, member{"originalSizeBytes", raw(size)})
	}
	return block{kind: blockImage, raw: o.JSON()}
}

// shape is how a message stood in the snapshot it came with, as far as its
// words do not say so. It is kept with the message, so that another export
// has the same bytes.
type shape struct {
	Form   string          `json:"form,omitempty"`   // text or blocks, where another one is usual
	Bare   bool            `json:"bare,omitempty"`   // a result without is_error
	Begins bool            `json:"begins,omitempty"` // a result that does not share its message with the one before
	Sizes  []int64         `json:"sizes,omitempty"`  // of images; -1: not given
	Whole  json.RawMessage `json:"whole,omitempty"`  // the message itself, where the rest cannot tell
	Spans  int             `json:"spans,omitempty"`  // how many messages Whole stands for
}

const shapeKey = "snapshot"

func shapeOf(m session.Message) shape {
	var s shape
	if value, ok := m.Metadata[shapeKey]; ok {
		_ = json.Unmarshal(value, &s) // what cannot be read has the usual shape
	}
	return s
}

func (s shape) on(m session.Message) session.Message {
	value := raw(s)
	if string(value) == "{}" {
		return m
	}
	m.Metadata = session.Values{shapeKey: value}
	return m
}

// turnsOf is a window as a history: results that follow one another are one
// message.
func turnsOf(messages []session.Message) []passage {
	var turns []passage
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		s := shapeOf(m)
		if s.Whole != nil && i+s.Spans <= len(messages) {
			if t, err := readPassage(s.Whole); err == nil {
				turns = append(turns, t)
				i += max(s.Spans, 1) - 1
				continue
			}
		}
		if r := m.ToolResult; r != nil {
			last := len(turns) - 1
			if last < 0 || s.Begins || !turns[last].hasResults() || turns[last].raw != nil {
				turns = append(turns, passage{role: roleUser})
				last++
			}
			turns[last].blocks = append(turns[last].blocks, resultBlock(r, s.Bare))
			continue
		}
		turns = append(turns, turnOf(m, s))
	}
	return turns
}

func turnOf(m session.Message, s shape) passage {
	t := passage{role: string(m.Role)}
	plain := len(m.ToolCalls) == 0 && (len(m.Content) == 0 || len(m.Content) == 1 && m.Content[0].Type == session.PartText)
	if plain && (m.Role == session.RoleAssistant) == (s.Form == "text") && s.Form != "blocks" {
		text := m.Content.Text()
		t.text = &text
		return t
	}
	images := 0
	for _, p := range m.Content {
		switch p.Type {
		case session.PartText:
			t.blocks = append(t.blocks, textBlock(p.Text))
		case session.PartImage:
			var noted *int64
			if images < len(s.Sizes) {
				noted = &s.Sizes[images]
			}
			images++
			t.blocks = append(t.blocks, imageBlock(p, noted))
		case session.PartReasoning: // is a provider's own
		case session.PartFile, session.PartAudio:
			t.blocks = append(t.blocks, textBlock(fmt.Sprintf("[%s %s %s]", p.Type, p.Name, p.MediaType)))
		default:
			t.blocks = append(t.blocks, block{kind: p.Type, raw: p.Raw})
		}
	}
	for _, c := range m.ToolCalls {
		t.blocks = append(t.blocks, callBlock(c.ID, c.Name, c.Arguments))
	}
	return t
}

// messagesOf is a history as messages of a session. It is one that normalise
// has seen.
func messagesOf(turns []passage, newID func() string) []session.Message {
	var messages []session.Message
	names := map[string]string{} // of tools, by call
	for _, t := range turns {
		from := len(messages)
		made := t.messages(names)
		if from > 0 && messages[from-1].ToolResult != nil && made[0].ToolResult != nil {
			s := shapeOf(made[0])
			s.Begins = true
			made[0] = s.on(made[0])
		}
		again := turnsOf(made)
		if len(again) != 1 || !sameJSON(again[0].JSON(), t.JSON()) {
			s := shapeOf(made[0])
			s.Whole, s.Spans = t.JSON(), len(made)
			made[0] = s.on(made[0])
		}
		for _, m := range made {
			m.ID = newID()
			messages = append(messages, m)
		}
	}
	return messages
}

func sameJSON(a, b json.RawMessage) bool {
	x, errX := compactJSON(a)
	y, errY := compactJSON(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// messages are what a turn is in a session: one for each result, else one.
func (t passage) messages(names map[string]string) []session.Message {
	m := session.Message{Role: session.Role(t.role)}
	if t.text != nil {
		if *t.text != "" {
			m.Content = session.Text(*t.text)
		}
		if t.role == roleAssistant {
			m = shape{Form: "text"}.on(m)
		}
		return []session.Message{m}
	}
	var results []session.Message
	var s shape
	for _, b := range t.blocks {
		o, err := readObject(b.raw)
		if err != nil {
			continue // it was read as one
		}
		switch b.kind {
		case blockToolResult:
			results = append(results, resultMessage(o, names[b.id]))
		case blockToolUse:
			names[b.id] = b.name
			m.ToolCalls = append(m.ToolCalls, session.ToolCall{ID: b.id, Name: b.name, Arguments: callInput(o)})
		case blockText:
			if text := o.text("text"); text != "" {
				m.Content = append(m.Content, session.Part{Type: session.PartText, Text: text})
			}
		case blockImage:
			size, ok := o.number("originalSizeBytes")
			if !ok {
				size = -1
			}
			s.Sizes = append(s.Sizes, size)
			m.Content = append(m.Content, session.Part{Type: session.PartImage, MediaType: o.text("mimeType"), Data: o.text("data"), URL: o.text("url")})
		case session.PartFile, session.PartAudio, session.PartReasoning: // a session gives these a form of its own
		default:
			m.Content = append(m.Content, session.Part{Type: b.kind, Raw: b.raw})
		}
	}
	if results != nil {
		return results
	}
	if t.role != roleAssistant && len(t.blocks) == 1 && t.blocks[0].kind == blockText {
		s.Form = "blocks"
	}
	return []session.Message{s.on(m)}
}

// callInput is what a call is given: an object, or put into one.
func callInput(o object) json.RawMessage {
	input, ok := o.get("input")
	if !ok || string(input) == "null" {
		return json.RawMessage("{}")
	}
	if _, err := readObject(input); err != nil {
		return object{{"input", input}}.JSON()
	}
	return input
}

func resultMessage(o object, tool string) session.Message {
	r := &session.ToolResult{CallID: o.text("tool_use_id"), ToolName: tool}
	if content, ok := o.get("content"); ok {
		r.Content = contentText(content)
	}
	value, given := o.get("is_error")
	r.IsError = string(value) == "true"
	return shape{Bare: !given}.on(session.Message{Role: session.RoleTool, ToolResult: r})
}

// contentText is the text of a result: itself, or that of its blocks.
func contentText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	list, ok := array(content)
	if !ok {
		return string(content)
	}
	var texts []string
	for _, value := range list {
		if o, err := readObject(value); err == nil && o.text("type") == blockText {
			texts = append(texts, o.text("text"))
		}
	}
	return strings.Join(texts, "\n")
}
