package taskruntime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// shape records how an imported message was written where that is not the
// usual form. It is kept in the message's metadata, so that an export has the
// same bytes.
type shape struct {
	Form   string          `json:"form,omitempty"`   // text or blocks, if not the usual one
	Bare   bool            `json:"bare,omitempty"`   // a result without is_error
	Begins bool            `json:"begins,omitempty"` // a result that starts a new message
	Sizes  []int64         `json:"sizes,omitempty"`  // of images; -1: none given
	Whole  json.RawMessage `json:"whole,omitempty"`  // the original, where the other fields do not suffice
	Spans  int             `json:"spans,omitempty"`  // how many messages Whole replaces
}

const shapeKey = "snapshot"

func shapeOf(m session.Message) shape {
	var s shape
	if value, ok := m.Metadata[shapeKey]; ok {
		_ = json.Unmarshal(value, &s) // an unreadable shape counts as the usual one
	}
	return s
}

func (s shape) attach(m session.Message) session.Message {
	value := rawJSON(s)
	if string(value) == "{}" {
		return m
	}
	m.Metadata = session.Values{shapeKey: value}
	return m
}

// historyOf turns a window into a history: consecutive results become one
// message.
func historyOf(messages []session.Message) []historyMessage {
	var history []historyMessage
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		s := shapeOf(m)
		if s.Whole != nil && i+s.Spans <= len(messages) {
			if t, err := readHistoryMessage(s.Whole); err == nil {
				history = append(history, t)
				i += max(s.Spans, 1) - 1
				continue
			}
		}
		if r := m.ToolResult; r != nil {
			last := len(history) - 1
			if last < 0 || s.Begins || !history[last].hasResults() || history[last].raw != nil {
				history = append(history, historyMessage{role: roleUser})
				last++
			}
			history[last].blocks = append(history[last].blocks, resultBlock(r, s.Bare))
			continue
		}
		history = append(history, historyMessageOf(m, s))
	}
	return history
}

func historyMessageOf(m session.Message, s shape) historyMessage {
	t := historyMessage{role: string(m.Role)}
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
			var recorded *int64
			if images < len(s.Sizes) {
				recorded = &s.Sizes[images]
			}
			images++
			t.blocks = append(t.blocks, imageBlock(p, recorded))
		case session.PartReasoning: // only its provider can use it
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

// sessionMessages turns a normalised history into messages of a session.
func sessionMessages(history []historyMessage, newID func() string) []session.Message {
	var messages []session.Message
	names := map[string]string{} // tool names by call id
	for _, t := range history {
		from := len(messages)
		made := t.messages(names)
		if from > 0 && messages[from-1].ToolResult != nil && made[0].ToolResult != nil {
			s := shapeOf(made[0])
			s.Begins = true
			made[0] = s.attach(made[0])
		}
		again := historyOf(made)
		if len(again) != 1 || !sameJSON(again[0].JSON(), t.JSON()) {
			s := shapeOf(made[0])
			s.Whole, s.Spans = t.JSON(), len(made)
			made[0] = s.attach(made[0])
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

// messages makes one session message for each result, or one for the whole.
func (t historyMessage) messages(names map[string]string) []session.Message {
	m := session.Message{Role: session.Role(t.role)}
	if t.text != nil {
		if *t.text != "" {
			m.Content = session.Text(*t.text)
		}
		if t.role == roleAssistant {
			m = shape{Form: "text"}.attach(m)
		}
		return []session.Message{m}
	}
	var results []session.Message
	var s shape
	for _, b := range t.blocks {
		o, err := readObject(b.raw)
		if err != nil {
			continue // cannot happen: readBlock has read it
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
		case session.PartFile, session.PartAudio, session.PartReasoning: // a session stores these in its own form
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
	return []session.Message{s.attach(m)}
}

// callInput returns the arguments of a call; a value that is no object is put
// into one.
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
	return shape{Bare: !given}.attach(session.Message{Role: session.RoleTool, ToolResult: r})
}

// contentText returns the text of a result: a string, or the text of its blocks.
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
