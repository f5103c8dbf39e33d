package taskruntime

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
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

// historyMessage is one message of a conversationHistory.
type historyMessage struct {
	role   string
	text   *string // content that is a string; blocks is empty then
	blocks []block
	raw    json.RawMessage // the original, unless blocks were dropped

	emptied bool // all blocks were dropped
}

// block is one piece of content.
type block struct {
	kind string
	id   string // of a call, or of a result's call
	name string // of a call
	raw  json.RawMessage
}

func textMessage(role, text string) historyMessage { return historyMessage{role: role, text: &text} }

func (t historyMessage) hasResults() bool {
	return slices.ContainsFunc(t.blocks, func(b block) bool { return b.kind == blockToolResult })
}

// filter keeps the blocks that keep accepts.
func (t historyMessage) filter(keep func(int, block) bool) historyMessage {
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
	return historyMessage{role: t.role, blocks: kept, emptied: len(kept) == 0}
}

func readHistory(value json.RawMessage) ([]historyMessage, error) {
	list, ok := array(value)
	if !ok {
		return nil, &fieldError{"conversationHistory", "is not a list"}
	}
	history := make([]historyMessage, len(list))
	for i, value := range list {
		t, err := readHistoryMessage(value)
		if err != nil {
			return nil, &fieldError{fmt.Sprintf("conversationHistory[%d]%s", i, err.field), err.reason}
		}
		history[i] = t
	}
	return history, nil
}

func readHistoryMessage(value json.RawMessage) (historyMessage, *fieldError) {
	o, err := readObject(value)
	if err != nil {
		return historyMessage{}, &fieldError{"", err.Error()}
	}
	t := historyMessage{role: o.text("role"), raw: value}
	switch session.Role(t.role) {
	case session.RoleUser, session.RoleAssistant, session.RoleSystem, session.RoleDeveloper:
	default:
		return historyMessage{}, &fieldError{".role", fmt.Sprintf("%q is not a role; use user, assistant, system or developer", t.role)}
	}
	content, ok := o.get("content")
	if !ok {
		return historyMessage{}, &fieldError{".content", "is missing"}
	}
	var text *string
	if json.Unmarshal(content, &text) == nil && text != nil {
		t.text = text
		return t, nil
	}
	list, ok := array(content)
	if !ok {
		return historyMessage{}, &fieldError{".content", "is neither a text nor a list of blocks"}
	}
	for i, value := range list {
		b, err := readBlock(value)
		if err != nil {
			return historyMessage{}, &fieldError{fmt.Sprintf(".content[%d]", i), err.Error()}
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

func (t historyMessage) JSON() json.RawMessage {
	if t.raw != nil {
		return t.raw
	}
	content := listJSON(t.blocks, func(b block) json.RawMessage { return b.raw })
	if t.text != nil {
		content = rawJSON(*t.text)
	}
	return object{{"role", rawJSON(t.role)}, {"content", content}}.JSON()
}

func (t historyMessage) plainText() string {
	if t.text != nil {
		return *t.text
	}
	var texts []string
	for _, b := range t.blocks {
		if b.kind == blockText {
			o, _ := readObject(b.raw)
			texts = append(texts, o.text("text"))
		}
	}
	return strings.Join(texts, "\n")
}

func textBlock(text string) block {
	return block{kind: blockText, raw: object{{"type", rawJSON(blockText)}, {"text", rawJSON(text)}}.JSON()}
}

func callBlock(id, name string, input json.RawMessage) block {
	return block{kind: blockToolUse, id: id, name: name, raw: object{
		{"type", rawJSON(blockToolUse)}, {"id", rawJSON(id)}, {"name", rawJSON(name)}, {"input", input},
	}.JSON()}
}

func resultBlock(r *session.ToolResult, bare bool) block {
	o := object{{"type", rawJSON(blockToolResult)}, {"tool_use_id", rawJSON(r.CallID)}, {"content", rawJSON(r.Content)}}
	if r.IsError || !bare {
		o = append(o, member{"is_error", rawJSON(r.IsError)})
	}
	return block{kind: blockToolResult, id: r.CallID, raw: o.JSON()}
}

// imageBlock writes the recorded size, else the size of the data. A recorded -1
// means that the original had no size.
func imageBlock(p session.Part, recorded *int64) block {
	o := object{{"type", rawJSON(blockImage)}, {"mimeType", rawJSON(p.MediaType)}}
	size := int64(-1)
	if p.Data != "" {
		o = append(o, member{"data", rawJSON(p.Data)})
		size = int64(base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(p.Data, "="))))
	}
	if p.URL != "" {
		o = append(o, member{"url", rawJSON(p.URL)})
	}
	if recorded != nil {
		size = *recorded
	}
	if size >= 0 {
		o = append(o, member{"originalSizeBytes", rawJSON(size)})
	}
	return block{kind: blockImage, raw: o.JSON()}
}
