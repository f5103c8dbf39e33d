package openai

import (
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

// messages is the transcript in this protocol. What has no place in it is
// named in a text in its stead.
func (m *Model) messages(r llm.Request) ([]map[string]any, error) {
	var out []map[string]any
	if r.System != "" {
		out = append(out, map[string]any{"role": "system", "content": r.System})
	}
	var ids wire.CallIDs
	for _, message := range session.Sendable(r.Messages) {
		var said map[string]any
		switch message.Role {
		case session.RoleSystem, session.RoleDeveloper: // only OpenAI knows developers, and takes either
			said = map[string]any{"role": "system", "content": wire.PlainText(message.Content)}
		case session.RoleAssistant:
			if said = m.assistant(message, &ids); said == nil {
				continue
			}
		case session.RoleTool:
			said = map[string]any{"role": "tool", "tool_call_id": ids.Result(), "content": result(message)}
		default:
			said = map[string]any{"role": "user", "content": userContent(message.Content)}
		}
		if name := speaker(message); name != "" {
			said["name"] = name
		}
		out = append(out, said)
	}
	if len(out) == 0 {
		return nil, &session.InvalidError{Field: "messages", Reason: "there is nothing to send"}
	}
	return out, nil
}

// assistant is an answer given before, or nil where it said nothing.
func (m *Model) assistant(message session.Message, ids *wire.CallIDs) map[string]any {
	text := wire.PlainText(message.Content)
	if text == "" && len(message.ToolCalls) == 0 {
		return nil
	}
	said := map[string]any{"role": "assistant", "content": text}
	if text == "" {
		said["content"] = nil
	}
	var calls []call
	for _, c := range message.ToolCalls {
		calls = append(calls, call{
			ID: ids.Call(c.ID), Type: "function",
			Function: callFunction{Name: wire.ToolName(c.Name), Arguments: string(llm.Arguments(string(c.Arguments)))},
		})
	}
	if calls != nil {
		said["tool_calls"] = calls
	}
	m.reasoning(message.Content, said)
	return said
}

// reasoning gives back what the provider wants back of its own thoughts.
func (m *Model) reasoning(content session.Content, said map[string]any) {
	var thoughts []string
	for _, p := range content {
		switch p.Type {
		case session.PartReasoning:
			thoughts = append(thoughts, p.Text)
		case detailsPart:
			var d details
			if json.Unmarshal(p.Raw, &d) == nil && d.Provider == m.config.Provider {
				said["reasoning_details"] = d.Details
			}
		}
	}
	if m.config.ReasoningField != "" && len(thoughts) > 0 {
		said[m.config.ReasoningField] = strings.Join(thoughts, "\n")
	}
}

// userContent is a string where it can be: not every server takes parts.
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

// userPart is one part of what a user said, nil where it says nothing to a
// model.
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
			name := p.Name
			if name == "" {
				name = "file"
			}
			return map[string]any{"type": "file", "file": map[string]any{"filename": name, "file_data": data}}
		}
	case session.PartAudio:
		if format := audioFormat(media.Type); carries && format != "" {
			return map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": media.Data, "format": format}}
		}
	default: // reasoning, and what only another provider understands
		return nil
	}
	return textPart(wire.Instead(p))
}

func textPart(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

// audioFormat is the protocol's word for a media type, empty if it has none.
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

var speakerName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// speaker is the name of who speaks, where the protocol has a place for it.
func speaker(message session.Message) string {
	if message.Role == session.RoleTool || !speakerName.MatchString(message.Name) {
		return ""
	}
	return message.Name
}
