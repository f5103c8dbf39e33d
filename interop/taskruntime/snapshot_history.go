package taskruntime

import (
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
