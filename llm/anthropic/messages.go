package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// turn is all that one side says before the other side speaks.
type turn struct {
	Role    string  `json:"role"`
	Content []piece `json:"content"`
}

// piece is a content block.
type piece = map[string]any

const (
	user      = "user"
	assistant = "assistant"
)

// Texts that stand where the protocol wants one and the transcript has none.
const (
	nothing = "(nothing)"
	carryOn = "(continue)"
)

// messagesOf is the transcript in this protocol: system messages apart, the
// two sides in turn, the user first and last, no blank text. What has no place
// in it is named in a text in its stead.
func messagesOf(r llm.Request) (turns []turn, system []string) {
	add := func(role string, content []piece) {
		if len(content) == 0 {
			return
		}
		if n := len(turns); n > 0 && turns[n-1].Role == role {
			turns[n-1].Content = append(turns[n-1].Content, content...)
			return
		}
		turns = append(turns, turn{Role: role, Content: content})
	}
	if strings.TrimSpace(r.System) != "" {
		system = append(system, r.System)
	}
	var ids wire.CallIDs
	for _, m := range session.Sendable(r.Messages) {
		switch m.Role {
		case session.RoleSystem, session.RoleDeveloper:
			if said := wire.PlainText(m.Content); strings.TrimSpace(said) != "" {
				system = append(system, said)
			}
		case session.RoleAssistant:
			add(assistant, answered(m, &ids))
		case session.RoleTool:
			add(user, []piece{result(m, ids.Result())})
		default:
			said := spoken(m.Content)
			if len(said) == 0 {
				said = []piece{text(nothing)}
			}
			add(user, said)
		}
	}
	if n := len(turns); n > 0 && turns[n-1].Role == assistant {
		add(user, []piece{text(carryOn)}) // an answer to go on with is not taken by every model
	}
	return turns, system
}

func text(s string) piece { return piece{"type": "text", "text": s} }

// answered is an answer given before: thoughts first, calls last.
func answered(m session.Message, ids *wire.CallIDs) []piece {
	var blocks []piece
	for _, p := range m.Content {
		switch p.Type {
		case session.PartText:
			if strings.TrimSpace(p.Text) != "" {
				blocks = append(blocks, text(p.Text))
			}
		case session.PartReasoning:
			if p.Signature != "" { // without its seal a thought is refused
				blocks = append(blocks, piece{"type": "thinking", "thinking": p.Text, "signature": p.Signature})
			}
		case session.PartImage, session.PartFile, session.PartAudio:
			blocks = append(blocks, text(wire.Instead(p)))
		default:
			if own, ok := ownBlock(p); ok {
				blocks = append(blocks, own)
			}
		}
	}
	for _, c := range m.ToolCalls {
		blocks = append(blocks, piece{
			"type": "tool_use", "id": ids.Call(c.ID), "name": wire.ToolName(c.Name), "input": llm.Arguments(string(c.Arguments)),
		})
	}
	return blocks
}

// ownBlock is a block that this provider wrote and wants back as it was.
func ownBlock(p session.Part) (piece, bool) {
	switch {
	case p.Type == "redacted_thinking", p.Type == "server_tool_use", p.Type == "mcp_tool_use", strings.HasSuffix(p.Type, "_tool_result"):
		var b piece
		return b, json.Unmarshal(p.Raw, &b) == nil
	}
	return nil, false
}

// spoken is what a user says.
func spoken(content session.Content) []piece {
	var blocks []piece
	for _, p := range content {
		switch p.Type {
		case session.PartText:
			if strings.TrimSpace(p.Text) != "" {
				blocks = append(blocks, text(p.Text))
			}
		case session.PartImage, session.PartFile, session.PartAudio:
			blocks = append(blocks, attachment(p))
		}
	}
	return blocks
}

// attachment is an image or a document, or a text that says it was left out.
func attachment(p session.Part) piece {
	source, ok := sourceOf(p)
	switch {
	case ok && p.Type == session.PartImage:
		return piece{"type": "image", "source": source}
	case ok && p.Type == session.PartFile && strings.TrimSpace(p.Name) != "":
		return piece{"type": "document", "source": source, "title": p.Name}
	case ok && p.Type == session.PartFile:
		return piece{"type": "document", "source": source}
	}
	return text(wire.Instead(p)) // sound, for one, has no place in this protocol
}

// sourceOf is where the provider finds what a part shows, in a form it takes.
func sourceOf(p session.Part) (piece, bool) {
	if p.FileID != "" {
		return piece{"type": "file", "file_id": p.FileID}, true
	}
	media, carries := wire.MediaOf(p)
	if plain, ok := media.Text(); carries && ok && p.Type == session.PartFile {
		return piece{"type": "text", "media_type": "text/plain", "data": plain}, true
	}
	if carries && taken(p.Type, media.Type) {
		return piece{"type": "base64", "media_type": media.Type, "data": media.Data}, true
	}
	link, linked := wire.LinkOf(p)
	return piece{"type": "url", "url": link}, linked
}

// taken reports the media types that the provider takes.
func taken(part, mediaType string) bool {
	switch mediaType {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return part == session.PartImage
	case "application/pdf":
		return part == session.PartFile
	}
	return false
}

// result answers a call.
func result(m session.Message, id string) piece {
	block := piece{"type": "tool_result", "tool_use_id": id}
	var content []piece
	if strings.TrimSpace(m.ToolResult.Content) != "" {
		content = append(content, text(m.ToolResult.Content))
	}
	if content = append(content, spoken(m.Content)...); len(content) > 0 {
		block["content"] = content
	}
	if m.ToolResult.IsError {
		block["is_error"] = true
	}
	return block
}
