package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// sentMessage is one message of the protocol: roles must alternate.
type sentMessage struct {
	Role    string         `json:"role"`
	Content []contentBlock `json:"content"`
}

type contentBlock = map[string]any

const (
	user      = "user"
	assistant = "assistant"
)

// Texts for places where the protocol demands one and the transcript has none.
const (
	blankText    = "(nothing)"
	continueText = "(continue)"
)

// sentMessages writes the transcript in this protocol: system messages apart,
// alternating roles, the user first and last, no blank text, and placeholders
// for what it cannot express.
func sentMessages(r llm.Request) (messages []sentMessage, system []string) {
	add := func(role string, content []contentBlock) {
		if len(content) == 0 {
			return
		}
		if n := len(messages); n > 0 && messages[n-1].Role == role {
			messages[n-1].Content = append(messages[n-1].Content, content...)
			return
		}
		messages = append(messages, sentMessage{Role: role, Content: content})
	}
	if strings.TrimSpace(r.System) != "" {
		system = append(system, r.System)
	}
	var ids wire.CallIDs
	for _, m := range session.Sendable(r.Messages) {
		switch m.Role {
		case session.RoleSystem, session.RoleDeveloper:
			if text := wire.PlainText(m.Content); strings.TrimSpace(text) != "" {
				system = append(system, text)
			}
		case session.RoleAssistant:
			add(assistant, assistantBlocks(m, &ids))
		case session.RoleTool:
			add(user, []contentBlock{result(m, ids.Result())})
		default:
			blocks := userBlocks(m.Content)
			if len(blocks) == 0 {
				blocks = []contentBlock{text(blankText)}
			}
			add(user, blocks)
		}
	}
	if n := len(messages); n > 0 && messages[n-1].Role == assistant {
		add(user, []contentBlock{text(continueText)}) // not every model continues an unfinished answer
	}
	return messages, system
}

func text(s string) contentBlock { return contentBlock{"type": "text", "text": s} }

// assistantBlocks writes an earlier answer, calls last.
func assistantBlocks(m session.Message, ids *wire.CallIDs) []contentBlock {
	var blocks []contentBlock
	for _, p := range m.Content {
		switch p.Type {
		case session.PartText:
			if strings.TrimSpace(p.Text) != "" {
				blocks = append(blocks, text(p.Text))
			}
		case session.PartReasoning:
			if p.Signature != "" { // without a signature thinking is refused
				blocks = append(blocks, contentBlock{"type": "thinking", "thinking": p.Text, "signature": p.Signature})
			}
		case session.PartImage, session.PartFile, session.PartAudio:
			blocks = append(blocks, text(wire.Placeholder(p)))
		default:
			if own, ok := ownBlock(p); ok {
				blocks = append(blocks, own)
			}
		}
	}
	for _, c := range m.ToolCalls {
		blocks = append(blocks, contentBlock{
			"type": "tool_use", "id": ids.Call(c.ID), "name": wire.ToolName(c.Name), "input": llm.Arguments(string(c.Arguments)),
		})
	}
	return blocks
}

// ownBlock returns a block that this provider wrote and wants back unchanged.
func ownBlock(p session.Part) (contentBlock, bool) {
	switch {
	case p.Type == "redacted_thinking", p.Type == "server_tool_use", p.Type == "mcp_tool_use", strings.HasSuffix(p.Type, "_tool_result"):
		var b contentBlock
		return b, json.Unmarshal(p.Raw, &b) == nil
	}
	return nil, false
}

// userBlocks writes the content of a user's message.
func userBlocks(content session.Content) []contentBlock {
	var blocks []contentBlock
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

// attachment writes an image or a document, or a placeholder.
func attachment(p session.Part) contentBlock {
	source, ok := sourceOf(p)
	switch {
	case ok && p.Type == session.PartImage:
		return contentBlock{"type": "image", "source": source}
	case ok && p.Type == session.PartFile && strings.TrimSpace(p.Name) != "":
		return contentBlock{"type": "document", "source": source, "title": p.Name}
	case ok && p.Type == session.PartFile:
		return contentBlock{"type": "document", "source": source}
	}
	return text(wire.Placeholder(p)) // the protocol has no audio
}

// sourceOf returns the data or the address of a part, if the provider accepts it.
func sourceOf(p session.Part) (contentBlock, bool) {
	if p.FileID != "" {
		return contentBlock{"type": "file", "file_id": p.FileID}, true
	}
	media, carries := wire.MediaOf(p)
	if plain, ok := media.Text(); carries && ok && p.Type == session.PartFile {
		return contentBlock{"type": "text", "media_type": "text/plain", "data": plain}, true
	}
	if carries && accepts(p.Type, media.Type) {
		return contentBlock{"type": "base64", "media_type": media.Type, "data": media.Data}, true
	}
	link, linked := wire.LinkOf(p)
	return contentBlock{"type": "url", "url": link}, linked
}

// accepts reports whether the provider accepts a media type.
func accepts(part, mediaType string) bool {
	switch mediaType {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return part == session.PartImage
	case "application/pdf":
		return part == session.PartFile
	}
	return false
}

func result(m session.Message, id string) contentBlock {
	block := contentBlock{"type": "tool_result", "tool_use_id": id}
	var content []contentBlock
	if strings.TrimSpace(m.ToolResult.Content) != "" {
		content = append(content, text(m.ToolResult.Content))
	}
	if content = append(content, userBlocks(m.Content)...); len(content) > 0 {
		block["content"] = content
	}
	if m.ToolResult.IsError {
		block["is_error"] = true
	}
	return block
}
