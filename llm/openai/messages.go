package openai

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

type callFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type call struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function callFunction `json:"function"`
}

// messages writes the transcript in this protocol, with placeholders for what it
// cannot express.
func (m *Model) messages(r llm.Request) ([]map[string]any, error) {
	var out []map[string]any
	if r.System != "" {
		out = append(out, map[string]any{"role": "system", "content": r.System})
	}
	var ids wire.CallIDs
	for _, message := range session.Sendable(r.Messages) {
		var sent map[string]any
		switch message.Role {
		case session.RoleSystem, session.RoleDeveloper: // only OpenAI knows developers, and it accepts system too
			sent = map[string]any{"role": "system", "content": wire.PlainText(message.Content)}
		case session.RoleAssistant:
			if sent = m.assistant(message, &ids); sent == nil {
				continue
			}
		case session.RoleTool:
			sent = map[string]any{"role": "tool", "tool_call_id": ids.Result(), "content": result(message)}
		default:
			sent = map[string]any{"role": "user", "content": userContent(message.Content)}
		}
		if name := messageName(message); name != "" {
			sent["name"] = name
		}
		out = append(out, sent)
	}
	if len(out) == 0 {
		return nil, &session.InvalidError{Field: "messages", Reason: "are empty: there is nothing to send"}
	}
	return out, nil
}

// assistant writes an earlier answer; nil if it is empty.
func (m *Model) assistant(message session.Message, ids *wire.CallIDs) map[string]any {
	text := wire.PlainText(message.Content)
	if text == "" && len(message.ToolCalls) == 0 {
		return nil
	}
	sent := map[string]any{"role": "assistant", "content": text}
	if text == "" {
		sent["content"] = nil
	}
	var calls []call
	for _, c := range message.ToolCalls {
		calls = append(calls, call{
			ID: ids.Call(c.ID), Type: "function",
			Function: callFunction{Name: wire.ToolName(c.Name), Arguments: string(llm.Arguments(string(c.Arguments)))},
		})
	}
	if calls != nil {
		sent["tool_calls"] = calls
	}
	m.reasoning(message.Content, sent)
	return sent
}

// reasoning adds the earlier reasoning that the provider wants back.
func (m *Model) reasoning(content session.Content, sent map[string]any) {
	var thoughts []string
	for _, p := range content {
		switch p.Type {
		case session.PartReasoning:
			thoughts = append(thoughts, p.Text)
		case detailsPart:
			var d details
			if json.Unmarshal(p.Raw, &d) == nil && d.Provider == m.config.Provider {
				sent["reasoning_details"] = d.Details
			}
		}
	}
	if m.config.ReasoningField != "" && len(thoughts) > 0 {
		sent[m.config.ReasoningField] = strings.Join(thoughts, "\n")
	}
}

// userContent returns a string if possible: not every server accepts parts.
func userContent(content session.Content) any {
	var parts []map[string]any
	plain := true
	for _, p := range content {
		part := userPart(p)
		plain = plain && (part == nil || part["type"] == "text")
		if part != nil {
			parts = append(parts, part)
		}
	}
	if plain {
		return wire.PlainText(content)
	}
	return parts
}

// userPart writes one part of a user's message; nil for a part that no model
// reads.
func userPart(p session.Part) map[string]any {
	media, carries := wire.MediaOf(p)
	link, linked := wire.LinkOf(p)
	data := "data:" + media.Type + ";base64," + media.Data
	switch p.Type {
	case session.PartText:
		if p.Text == "" {
			return nil
		}
		return textPart(p.Text)
	case session.PartImage:
		if carries && strings.HasPrefix(media.Type, "image/") {
			link, linked = data, true
		}
		if linked {
			return map[string]any{"type": "image_url", "image_url": map[string]any{"url": link}}
		}
	case session.PartFile:
		switch {
		case p.FileID != "":
			return map[string]any{"type": "file", "file": map[string]any{"file_id": p.FileID}}
		case carries:
			return map[string]any{"type": "file", "file": map[string]any{"filename": cmp.Or(p.Name, "file"), "file_data": data}}
		}
	case session.PartAudio:
		if format := audioFormat(media.Type); carries && format != "" {
			return map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": media.Data, "format": format}}
		}
	default: // reasoning, and parts of other providers
		return nil
	}
	return textPart(wire.Placeholder(p))
}

func textPart(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

// audioFormat returns the protocol's name of a media type, if it has one.
func audioFormat(mediaType string) string {
	switch mediaType {
	case "audio/wav", "audio/wave", "audio/x-wav":
		return "wav"
	case "audio/mpeg", "audio/mp3":
		return "mp3"
	}
	return ""
}

func result(message session.Message) string {
	text := message.ToolResult.Content
	if more := wire.PlainText(message.Content); more != "" {
		text = strings.TrimPrefix(text+"\n"+more, "\n")
	}
	return text
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// messageName returns the author's name, if the protocol accepts it.
func messageName(message session.Message) string {
	if message.Role == session.RoleTool || !namePattern.MatchString(message.Name) {
		return ""
	}
	return message.Name
}
