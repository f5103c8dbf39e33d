package taskruntime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

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
