package strands

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// opaquePart is the type of a part that holds a block which has no other form
// in a session: {"type": "strands.block", "block": {…}}.
const opaquePart = "strands.block"

type opaque struct {
	Type  string `json:"type"`
	Block Object `json:"block"`
}

type toolUse struct {
	ToolUseID string          `json:"toolUseId"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type toolResult struct {
	ToolUseID string   `json:"toolUseId"`
	Status    string   `json:"status"`
	Content   []Object `json:"content"`
}

type reasoning struct {
	Text struct {
		Text      string `json:"text"`
		Signature string `json:"signature,omitempty"`
	} `json:"reasoningText"`
}

// media is an image or a document.
type media struct {
	Format string `json:"format"`
	Name   string `json:"name,omitempty"`
	Source struct {
		Bytes encodedBytes `json:"bytes"`
	} `json:"source"`
}

// encodedBytes is how the SDK puts bytes into JSON.
type encodedBytes struct {
	Encoded bool   `json:"__bytes_encoded__"`
	Data    string `json:"data"` // base64
}

// documentTypes returns the media types of the formats a document may have.
func documentTypes() map[string]string {
	const office = "application/vnd.openxmlformats-officedocument."
	return map[string]string{
		"pdf": "application/pdf", "csv": "text/csv", "html": "text/html", "txt": "text/plain", "md": "text/markdown",
		"doc": "application/msword", "docx": office + "wordprocessingml.document",
		"xls": "application/vnd.ms-excel", "xlsx": office + "spreadsheetml.sheet",
	}
}

// blockKey returns a block's only key and its value; blocks have one.
func blockKey(block Object) (kind string, value json.RawMessage) {
	if block.Len() != 1 {
		return "", nil
	}
	return block.entries[0].key, block.entries[0].value
}

// blockOf makes a block of its key and value. Values that come here encode.
func blockOf(kind string, value any) Object {
	var block Object
	block.Set(kind, encoded(value))
	return block
}

// partOf turns a block into a part of a session's message. A block that a session
// knows no equal of is kept whole inside a part.
func partOf(block Object) session.Part {
	kind, value := blockKey(block)
	switch kind {
	case "text":
		var text *string
		if json.Unmarshal(value, &text) == nil && text != nil {
			return session.Part{Type: session.PartText, Text: *text}
		}
	case "citationsContent", "guardContent":
		if text, ok := wrappedText(value); ok {
			return session.Part{Type: session.PartText, Text: text}
		}
	case "reasoningContent":
		var r reasoning
		if json.Unmarshal(value, &r) == nil && r.Text.Text != "" {
			return session.Part{Type: session.PartReasoning, Text: r.Text.Text, Signature: r.Text.Signature}
		}
	case "image", "document":
		if part, ok := mediaPart(kind, value); ok {
			return part
		}
	}
	return opaquePartOf(block)
}

func opaquePartOf(block Object) session.Part {
	raw, err := session.JSON(opaque{Type: opaquePart, Block: block})
	if err == nil {
		raw, err = session.CompactJSON("block", raw)
	}
	if err != nil { // not for a block that was read
		return session.Part{Type: session.PartText}
	}
	return session.Part{Type: opaquePart, Raw: raw}
}

// wrappedText returns the text that a model said with citations, or that a guard
// was asked to look at.
func wrappedText(value json.RawMessage) (text string, ok bool) {
	type wrapped struct {
		Text string `json:"text"`
	}
	var v struct {
		Guarded *wrapped  `json:"text"`
		Cited   []wrapped `json:"content"`
	}
	if json.Unmarshal(value, &v) != nil {
		return "", false
	}
	if v.Guarded != nil {
		v.Cited = append(v.Cited, *v.Guarded)
	}
	for _, w := range v.Cited {
		text += w.Text
	}
	return text, len(v.Cited) > 0
}

func mediaPart(kind string, value json.RawMessage) (session.Part, bool) {
	var m media
	if json.Unmarshal(value, &m) != nil || !m.Source.Bytes.Encoded || m.Format == "" {
		return session.Part{}, false
	}
	if _, err := base64.StdEncoding.DecodeString(m.Source.Bytes.Data); err != nil {
		return session.Part{}, false
	}
	part := session.Part{Type: session.PartImage, MediaType: "image/" + m.Format, Data: m.Source.Bytes.Data}
	if kind == "document" {
		known, ok := documentTypes()[m.Format]
		if !ok {
			return session.Part{}, false
		}
		part.Type, part.MediaType = session.PartFile, known
	}
	part.Name = m.Name
	return part, true
}

// partBlock turns a part into a block, if there is one that says at least most
// of it.
func partBlock(p session.Part) (Object, bool) {
	switch p.Type {
	case session.PartText:
		return blockOf("text", p.Text), true
	case session.PartReasoning:
		var r reasoning
		r.Text.Text, r.Text.Signature = p.Text, p.Signature
		return blockOf("reasoningContent", r), p.Text != ""
	case session.PartImage:
		format, ok := strings.CutPrefix(p.MediaType, "image/")
		return mediaBlock("image", format, p), ok && format != "" && p.Data != ""
	case session.PartFile:
		for format, known := range documentTypes() {
			if known == p.MediaType && p.Data != "" {
				return mediaBlock("document", format, p), true
			}
		}
	case opaquePart:
		var o opaque
		if json.Unmarshal(p.Raw, &o) == nil && o.Block.Len() > 0 {
			return o.Block, true
		}
	}
	return Object{}, false
}

func mediaBlock(kind, format string, p session.Part) Object {
	m := media{Format: format, Name: p.Name}
	m.Source.Bytes = encodedBytes{Encoded: true, Data: p.Data}
	return blockOf(kind, m)
}

// callOf reads a tool call, if the block is one that a session can keep.
func callOf(block Object) (session.ToolCall, bool) {
	kind, value := blockKey(block)
	var use toolUse
	if kind != "toolUse" || json.Unmarshal(value, &use) != nil || use.Name == "" {
		return session.ToolCall{}, false
	}
	arguments, err := session.CompactJSON("input", use.Input)
	if err != nil || arguments[0] != '{' {
		arguments = json.RawMessage("{}")
	}
	return session.ToolCall{ID: use.ToolUseID, Name: use.Name, Arguments: arguments}, true
}

func callBlock(c session.ToolCall) Object {
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	return blockOf("toolUse", toolUse{ToolUseID: c.ID, Name: c.Name, Input: c.Arguments})
}

// resultOf reads a tool result: its texts and JSON values as one text, other
// things as content.
func resultOf(block Object) (session.Message, bool) {
	kind, value := blockKey(block)
	var result toolResult
	if kind != "toolResult" || string(value) == "null" || json.Unmarshal(value, &result) != nil {
		return session.Message{}, false
	}
	var texts []string
	var content session.Content
	for _, b := range result.Content {
		part := partOf(b)
		switch kind, value := blockKey(b); {
		case kind == "json":
			texts = append(texts, string(value))
		case part.Type == session.PartText:
			texts = append(texts, part.Text)
		default:
			content = append(content, part)
		}
	}
	return session.Message{
		Role: session.RoleTool, Content: content,
		ToolResult: &session.ToolResult{CallID: result.ToolUseID, Content: strings.Join(texts, "\n"), IsError: result.Status == "error"},
	}, true
}

func resultBlock(m session.Message) Object {
	result := toolResult{ToolUseID: m.ToolResult.CallID, Status: "success", Content: []Object{blockOf("text", m.ToolResult.Content)}}
	if m.ToolResult.IsError {
		result.Status = "error"
	}
	result.Content = append(result.Content, contentBlocks(m.Content)...)
	return blockOf("toolResult", result)
}

// contentBlocks turns content into blocks; parts without a block are left out.
func contentBlocks(content session.Content) []Object {
	var blocks []Object
	for _, p := range content {
		if block, ok := partBlock(p); ok {
			blocks = append(blocks, block)
		}
	}
	return blocks
}
