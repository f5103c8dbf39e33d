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
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// Format is the format in the import change of a session.
const Format = "claude-code.transcript"

// Detect reports whether data is a transcript: a line of it is a message with an
// id, in a session.
func Detect(data []byte) bool {
	seen := 0
	for text := range bytes.Lines(data) {
		var l line
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if json.Unmarshal(text, &l) != nil {
			return false
		}
		if l.SessionID != "" && l.UUID != "" && l.Message != nil {
			return true
		}
		if seen++; seen == 200 || l.Type == "" {
			return false
		}
	}
	return false
}

// line is one line of a transcript.
type line struct {
	Type              string          `json:"type"`
	UUID              string          `json:"uuid"`
	ParentUUID        string          `json:"parentUuid"`
	LogicalParentUUID string          `json:"logicalParentUuid"` // across a compaction
	SessionID         string          `json:"sessionId"`
	Timestamp         time.Time       `json:"timestamp"`
	IsSidechain       bool            `json:"isSidechain"` // of a subagent
	IsMeta            bool            `json:"isMeta"`      // written by the program, not by the person
	IsAPIError        bool            `json:"isApiErrorMessage"`
	Summary           string          `json:"summary"`
	ToolUseResult     json.RawMessage `json:"toolUseResult"`
	Message           *struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
		Usage   json.RawMessage `json:"usage"`
	} `json:"message"`
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
	lines, err := readLines(data)
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
func readLines(data []byte) ([]line, error) {
	var all []json.RawMessage
	for text := range bytes.Lines(data) {
		if text = bytes.TrimSpace(text); len(text) > 0 {
			all = append(all, text)
		}
	}
	if n := len(all); n > 1 && !json.Valid(all[n-1]) {
		all = all[:n-1]
	}
	for i, text := range all {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, &session.CorruptError{Path: fmt.Sprintf("line %d", i+1), Reason: err.Error()}
		}
	}
	whole, err := json.Marshal(all)
	if err != nil {
		return nil, &session.CorruptError{Reason: err.Error()}
	}
	var lines []line
	if err := foreign.Decode(whole, &lines); err != nil {
		return nil, &session.CorruptError{Reason: err.Error()}
	}
	return lines, nil
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
		for _, b := range blocksOf(l.Message.Content) {
			belongs = belongs || b.Type == "tool_result" && calls[b.ToolUseID]
			if belongs && b.Type == "tool_use" {
				calls[b.ID] = true
			}
		}
		return !belongs
	})
}

// blocksOf returns the content of a message: one text, or blocks.
func blocksOf(content json.RawMessage) []block {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return nil
	}
	return blocks
}

// addLine adds what a line says. The lines of one answer become one message:
// answers has its place.
func addLine(c *foreign.Conversation, l line, answers map[string]int) error {
	m := session.Message{ID: l.UUID, Role: session.Role(l.Message.Role), CreatedAt: l.Timestamp}
	if m.Role != session.RoleUser && m.Role != session.RoleAssistant {
		return &session.CorruptError{ID: c.ID, Path: l.UUID, Reason: fmt.Sprintf("the role %q is neither user nor assistant", l.Message.Role)}
	}
	if l.Message.Model != "" && l.Message.Model != "<synthetic>" {
		c.Model = "anthropic/" + l.Message.Model
	}
	for path, there := range map[string]bool{"message.usage": len(l.Message.Usage) > 0, "toolUseResult": len(l.ToolUseResult) > 0} {
		if there {
			c.Report.Drop(path)
		}
	}
	var results []session.Message
	for i, b := range blocksOf(l.Message.Content) {
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
	var text string
	for _, b := range blocksOf(content) {
		if b.Type == "text" {
			text += b.Text
			continue
		}
		text += "[" + b.Type + "]"
		c.Report.Drop("tool_result.content of the type " + b.Type)
	}
	return text
}
