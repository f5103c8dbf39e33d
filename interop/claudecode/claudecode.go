// Package claudecode imports the transcripts of Claude Code: a file of JSON lines
// for each session.
//
// The branch that the last message is on becomes the session. What subagents
// said, and branches that were given up, are left out and counted.
package claudecode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// Format is the format in the import change of a session.
const Format = "claude-code.transcript"

// Detect reports whether data is a transcript: a line of it is a message with an
// id, in a session. Broken lines are for Read to tell.
func Detect(data []byte) bool {
	for text := range bytes.Lines(data) {
		var l struct {
			UUID      string          `json:"uuid"`
			SessionID string          `json:"sessionId"`
			Message   json.RawMessage `json:"message"`
		}
		if json.Unmarshal(text, &l) == nil && l.SessionID != "" && l.UUID != "" && bytes.HasPrefix(l.Message, []byte("{")) {
			return true
		}
	}
	return false
}

// line is one line of a transcript.
type line struct {
	Type              string    `json:"type"`
	UUID              string    `json:"uuid"`
	ParentUUID        string    `json:"parentUuid"`
	LogicalParentUUID string    `json:"logicalParentUuid"` // across a compaction
	SessionID         string    `json:"sessionId"`
	Timestamp         time.Time `json:"timestamp"`
	IsSidechain       bool      `json:"isSidechain"` // of a subagent
	IsMeta            bool      `json:"isMeta"`      // written by the program, not by the person
	IsAPIError        bool      `json:"isApiErrorMessage"`
	Summary           string    `json:"summary"`
	ToolUseResult     present   `json:"toolUseResult"`
	Message           *struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
		Usage   present         `json:"usage"`
	} `json:"message"`

	number int // in the file, from 1
}

// present says that a key is there, whatever its value.
type present bool

// UnmarshalJSON is called for a key that is there.
func (p *present) UnmarshalJSON([]byte) error {
	*p = true
	return nil
}

// block is one part of the content of a message.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
}

// Read reads a transcript. An invalid one is a session.CorruptError with the
// number of the line.
func Read(data []byte) (foreign.Conversation, error) {
	c := foreign.Conversation{Format: Format, Agent: "claude-code"}
	lines, err := readLines(data, &c.Report)
	if err != nil {
		return c, err
	}
	var said []line
	skipped := map[string]int{}
	for _, l := range lines {
		switch {
		case l.Type == "summary" && l.Summary != "":
			c.Name = l.Summary
		case l.Message == nil || l.Type != "user" && l.Type != "assistant":
			c.Report.Drop("lines of the type " + l.Type)
		case l.IsSidechain:
			skipped["subagents"]++
		case l.UUID == "":
			c.Report.Drop("messages without a uuid")
		case l.IsMeta || l.IsAPIError:
			skipped["the program itself"]++
		default:
			said = append(said, l)
		}
	}
	for _, who := range []string{"subagents", "the program itself"} {
		if n := skipped[who]; n > 0 {
			c.Report.Note("left out messages of %s: %d", who, n)
		}
	}
	if len(said) == 0 {
		return c, &session.CorruptError{Reason: "the transcript has no message of a session"}
	}
	branch := lastBranch(said, lines)
	if n := len(said) - len(branch); n > 0 {
		c.Report.Note("left out messages of branches that were given up: %d", n)
	}
	c.ID, c.CreatedAt = said[len(said)-1].SessionID, branch[0].Timestamp
	answers := map[string]int{}
	for _, l := range branch {
		if err := addLine(&c, l, answers); err != nil {
			return c, err
		}
	}
	return c, nil
}

// readLines reads all lines, without the credentials in them. A last line that
// is cut off is left out: the program was killed while it wrote it.
func readLines(data []byte, report *foreign.Report) ([]line, error) {
	type numbered struct {
		number int
		text   []byte
	}
	var texts []numbered
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if text = bytes.TrimSpace(text); len(text) > 0 {
			texts = append(texts, numbered{number, text})
		}
	}
	var secrets foreign.Secrets
	for i, t := range texts {
		v, err := foreign.Parse(t.text)
		if err != nil && i > 0 && i == len(texts)-1 {
			report.Note("left out the last line, which is cut off: line %d", t.number)
			texts = texts[:i]
			break
		}
		if err != nil {
			return nil, corruptLine(t.number, err)
		}
		secrets.Find(v)
	}
	lines := make([]line, len(texts))
	for i, t := range texts {
		if err := secrets.Decode(t.text, &lines[i]); err != nil {
			return nil, corruptLine(t.number, err)
		}
		lines[i].number = t.number
	}
	secrets.Note(report)
	return lines, nil
}

func corruptLine(number int, err error) error {
	return &session.CorruptError{Path: fmt.Sprintf("line %d", number), Reason: err.Error()}
}

// lastBranch returns the messages that lead to the last one. Calls of one answer
// and their results are written as branches of their own: those whose answer is
// among the messages belong to it.
func lastBranch(said, lines []line) []line {
	byID := map[string]line{}
	for _, l := range lines { // lines of other types stand between messages
		byID[l.UUID] = l
	}
	on := map[string]bool{}
	answers := map[string]bool{}
	for at := said[len(said)-1].UUID; at != "" && !on[at]; at = cmp.Or(byID[at].ParentUUID, byID[at].LogicalParentUUID) {
		on[at] = true
		if m := byID[at].Message; m != nil && m.ID != "" {
			answers[m.ID] = true
		}
	}
	calls := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(said), func(l line) bool {
		belongs := on[l.UUID] || l.Message.ID != "" && answers[l.Message.ID]
		blocks, _ := blocksOf(l.Message.Content)
		for _, b := range blocks {
			belongs = belongs || b.Type == "tool_result" && calls[b.ToolUseID]
			if belongs && b.Type == "tool_use" {
				calls[b.ID] = true
			}
		}
		return !belongs
	})
}

// blocksOf returns the content of a message: one text, or blocks.
func blocksOf(content json.RawMessage) (blocks []block, ok bool) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return []block{{Type: "text", Text: text}}, true
	}
	return blocks, json.Unmarshal(content, &blocks) == nil
}

// addLine adds what a line says. The lines of one answer become one message:
// answers has its place.
func addLine(c *foreign.Conversation, l line, answers map[string]int) error {
	m := session.Message{ID: l.UUID, Role: session.Role(l.Message.Role), CreatedAt: l.Timestamp}
	if m.Role != session.RoleUser && m.Role != session.RoleAssistant {
		return corruptLine(l.number, fmt.Errorf("the role %q is neither user nor assistant", l.Message.Role))
	}
	if l.Message.Model != "" && l.Message.Model != "<synthetic>" {
		c.Model = "anthropic/" + l.Message.Model
	}
	for path, there := range map[string]bool{"message.usage": bool(l.Message.Usage), "toolUseResult": bool(l.ToolUseResult)} {
		if there {
			c.Report.Drop(path)
		}
	}
	var results []session.Message
	blocks, ok := blocksOf(l.Message.Content)
	if !ok {
		c.Report.Drop("message.content that is neither text nor blocks")
	}
	for i, b := range blocks {
		switch b.Type {
		case "tool_use":
			m.ToolCalls = append(m.ToolCalls, session.ToolCall{ID: b.ID, Name: b.Name, Arguments: foreign.Arguments(b.Input)})
		case "tool_result":
			result := session.ToolResult{CallID: b.ToolUseID, Content: resultText(c, b.Content), IsError: b.IsError}
			results = append(results, session.Message{ID: fmt.Sprintf("%s-%d", l.UUID, i), Role: session.RoleTool, CreatedAt: l.Timestamp, ToolResult: &result})
		default:
			if part, ok := b.part(); ok {
				m.Content = append(m.Content, part)
			} else {
				c.Report.Drop("message.content of the type " + b.Type)
			}
		}
	}
	c.Messages = append(c.Messages, results...)
	if id := l.Message.ID; m.Role == session.RoleAssistant && id != "" {
		if at, there := answers[id]; there {
			before := &c.Messages[at]
			before.Content, before.ToolCalls = append(before.Content, m.Content...), append(before.ToolCalls, m.ToolCalls...)
			return nil
		}
		answers[id] = len(c.Messages)
	}
	c.Messages = append(c.Messages, m)
	return nil
}

func (b block) part() (session.Part, bool) {
	kinds := map[string]string{"image": session.PartImage, "document": session.PartFile}
	switch {
	case b.Type == "text":
		return session.Part{Type: session.PartText, Text: b.Text}, true
	case b.Type == "thinking":
		return session.Part{Type: session.PartReasoning, Text: b.Thinking, Signature: b.Signature}, true
	case kinds[b.Type] != "" && (b.Source.Data != "" || b.Source.URL != ""):
		return session.Part{Type: kinds[b.Type], Data: b.Source.Data, URL: b.Source.URL, MediaType: b.Source.MediaType}, true
	}
	return session.Part{}, false
}

// resultText returns the text of a result. Images of it are left out.
func resultText(c *foreign.Conversation, content json.RawMessage) string {
	blocks, ok := blocksOf(content)
	if !ok {
		return string(content) // another value: the model gets the JSON
	}
	var text strings.Builder
	for _, b := range blocks {
		if b.Type == "text" {
			text.WriteString(b.Text)
			continue
		}
		text.WriteString("[" + b.Type + "]")
		c.Report.Drop("tool_result.content of the type " + b.Type)
	}
	return text.String()
}
