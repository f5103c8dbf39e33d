// Package openaiagents imports the sessions that the OpenAI Agents SDK keeps in a
// SQLite file: each has a list of items, as the Responses API has them.
package openaiagents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// Format is the format in the import change of a session.
const Format = "openai-agents.session"

// Detect reports whether a file has the tables of the SDK.
func Detect(ctx context.Context, d *foreign.Database) (bool, error) {
	return d.Has(ctx, "agent_sessions", "agent_messages")
}

// Read reads all sessions of a file that have messages, the oldest first.
func Read(ctx context.Context, d *foreign.Database) (all []foreign.Conversation, err error) {
	rows, err := d.QueryContext(ctx, `SELECT m.session_id, m.message_data, m.created_at, s.created_at, s.updated_at
		FROM agent_messages m JOIN agent_sessions s ON s.session_id = m.session_id ORDER BY s.created_at, s.session_id, m.id`)
	if err != nil {
		return nil, &session.CorruptError{Reason: err.Error()}
	}
	defer func() { _ = rows.Close() }()
	var items []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.session, &r.data, &r.at, &r.created, &r.updated); err != nil {
			return nil, &session.CorruptError{Reason: err.Error()}
		}
		if n := len(items); n > 0 && items[n-1].session != r.session {
			if all, err = appendConversation(all, items); err != nil {
				return nil, err
			}
			items = nil
		}
		items = append(items, r)
	}
	if err := rows.Err(); err != nil {
		return nil, &session.CorruptError{Reason: err.Error()}
	}
	return appendConversation(all, items)
}

// row is one item of a session.
type row struct {
	session              string
	data                 string
	at, created, updated moment
}

// moment is a time as SQLite writes it: without a zone, it is UTC.
type moment struct{ time.Time }

// Scan reads a time. One that is of no known form is none.
func (m *moment) Scan(v any) error {
	switch v := v.(type) {
	case time.Time:
		m.Time = v.UTC()
	case string:
		for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"} {
			if t, err := time.Parse(form, v); err == nil {
				m.Time = t.UTC()
				return nil
			}
		}
	}
	return nil
}

// item is what is looked at of an item.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   []contentPart   `json:"summary"`
}

type contentPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	FileData string `json:"file_data"`
	FileID   string `json:"file_id"`
	Filename string `json:"filename"`
}

func appendConversation(all []foreign.Conversation, rows []row) ([]foreign.Conversation, error) {
	if len(rows) == 0 {
		return all, nil
	}
	c := foreign.Conversation{Format: Format, ID: rows[0].session, Agent: "openai-agents", CreatedAt: rows[0].created.Time, UpdatedAt: rows[0].updated.Time}
	var secrets foreign.Secrets
	for i, r := range rows {
		v, err := foreign.Parse([]byte(r.data))
		if err != nil {
			return nil, corruptItem(c.ID, i, err)
		}
		secrets.Find(v)
	}
	for i, r := range rows {
		var it item
		if err := secrets.Decode([]byte(r.data), &it); err != nil {
			return nil, corruptItem(c.ID, i, err)
		}
		add(&c, it, r.at.Time)
	}
	secrets.Note(&c.Report)
	return append(all, c), nil
}

func corruptItem(id string, index int, err error) error {
	return &session.CorruptError{ID: id, Path: fmt.Sprintf("item %d", index+1), Reason: err.Error()}
}

// add adds an item. Reasoning, text and calls that follow each other are one
// answer.
func add(c *foreign.Conversation, it item, at time.Time) {
	m := session.Message{CreatedAt: at, Role: session.RoleAssistant}
	switch {
	case it.Role == "user":
		m.Role, m.Content = session.RoleUser, partsOf(c, it.Content)
	case it.Role == "assistant":
		m.Content = partsOf(c, it.Content)
	case it.Role != "":
		c.Report.Drop("items of the role " + it.Role)
		return
	case it.Type == "reasoning":
		for _, p := range it.Summary {
			m.Content = append(m.Content, session.Part{Type: session.PartReasoning, Text: p.Text})
		}
	case it.Type == "function_call":
		m.ToolCalls = []session.ToolCall{{ID: it.CallID, Name: it.Name, Arguments: foreign.Arguments([]byte(it.Arguments))}}
	case it.Type == "function_call_output":
		m.Role, m.ToolResult = session.RoleTool, &session.ToolResult{CallID: it.CallID, Content: outputText(c, it.Output)}
	default:
		c.Report.Drop("items of the type " + it.Type)
		return
	}
	if n := len(c.Messages); n > 0 && m.Role == session.RoleAssistant && c.Messages[n-1].Role == session.RoleAssistant {
		last := &c.Messages[n-1]
		if len(m.Content) == 0 || len(last.ToolCalls) == 0 { // a text behind calls is another answer
			last.Content, last.ToolCalls = append(last.Content, m.Content...), append(last.ToolCalls, m.ToolCalls...)
			return
		}
	}
	c.Messages = append(c.Messages, m)
}

func readParts(content json.RawMessage) []contentPart {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []contentPart{{Type: "input_text", Text: text}}
	}
	var parts []contentPart
	if json.Unmarshal(content, &parts) != nil {
		return nil
	}
	return parts
}

func partsOf(c *foreign.Conversation, content json.RawMessage) session.Content {
	var parts session.Content
	read := readParts(content)
	if read == nil {
		c.Report.Drop("content that is neither text nor parts")
	}
	for _, p := range read {
		switch {
		case p.Type == "input_text" || p.Type == "output_text":
			parts = append(parts, session.Part{Type: session.PartText, Text: p.Text})
		case p.Type == "refusal":
			parts = append(parts, session.Part{Type: session.PartText, Text: p.Refusal})
		case p.Type == "input_image" && p.ImageURL != "":
			parts = append(parts, protocol.MediaPart(session.PartImage, p.ImageURL, ""))
		case p.Type == "input_file" && p.FileData != "":
			parts = append(parts, protocol.MediaPart(session.PartFile, p.FileData, p.Filename))
		default:
			c.Report.Drop("content of the type " + p.Type)
		}
	}
	return parts
}

func outputText(c *foreign.Conversation, output json.RawMessage) string {
	parts := readParts(output)
	if parts == nil { // another value: the model gets the JSON
		return string(output)
	}
	var text strings.Builder
	for _, p := range parts {
		if p.Text == "" && p.Type != "input_text" {
			c.Report.Drop("output of the type " + p.Type)
		}
		text.WriteString(p.Text)
	}
	return text.String()
}
