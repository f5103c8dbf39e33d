package session

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Role is who speaks.
type Role string

// The roles of a message.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Roles lists every role.
func Roles() []Role { return []Role{RoleSystem, RoleDeveloper, RoleUser, RoleAssistant, RoleTool} }

// Message is one entry of a transcript. Messages inside a session never
// change; what a session hands out is a copy.
type Message struct {
	ID              string      `json:"id"`
	Seq             int64       `json:"seq"` // its place in the log; set by the session
	CreatedAt       time.Time   `json:"createdAt"`
	Role            Role        `json:"role"`
	Name            string      `json:"name,omitempty"`
	Content         Content     `json:"content"`
	ToolCalls       []ToolCall  `json:"toolCalls,omitempty"`
	ToolResult      *ToolResult `json:"toolResult,omitempty"`
	ExecutionID     string      `json:"executionId,omitempty"`
	StepID          string      `json:"stepId,omitempty"`
	Unit            string      `json:"unit,omitempty"`
	Lane            string      `json:"lane,omitempty"`
	Trace           bool        `json:"trace,omitempty"` // its step was not a final response
	RequestID       string      `json:"requestId,omitempty"`
	RootRequestID   string      `json:"rootRequestId,omitempty"`
	ParentRequestID string      `json:"parentRequestId,omitempty"`
	Metadata        Values      `json:"metadata,omitempty"`
}

// Size returns how many bytes a message has, without the names of its fields.
func (m Message) Size() int {
	size := m.Metadata.Size()
	for _, p := range m.Content {
		size += p.Size()
	}
	for _, c := range m.ToolCalls {
		size += len(c.ID) + len(c.Name) + len(c.Arguments)
	}
	if r := m.ToolResult; r != nil {
		size += len(r.CallID) + len(r.ToolName) + len(r.Content)
	}
	return size
}

// ToolCall is a model's wish to have a tool run. Arguments is always an object.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// ToolResult answers one tool call. Synthetic results were written by the
// runtime because the tool gave none.
type ToolResult struct {
	CallID    string `json:"callId"`
	ToolName  string `json:"toolName"`
	Content   string `json:"content"`
	IsError   bool   `json:"isError,omitempty"`
	Synthetic bool   `json:"synthetic,omitempty"`
}

// Text is content of a single text part.
func Text(s string) Content { return Content{{Type: PartText, Text: s}} }

// Content is what a message says. It encodes as a string when it is one plain
// text part, else as a list of parts; no content is the empty string.
type Content []Part

// Part types that Holdfast understands. Others are kept as they came.
const (
	PartText      = "text"
	PartImage     = "image"
	PartFile      = "file"
	PartAudio     = "audio"
	PartReasoning = "reasoning"
)

// Part is one piece of content. Raw holds the whole JSON object of a part
// whose type is not one of the constants; its other fields are then empty.
type Part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	URL       string          `json:"url,omitempty"`
	Data      string          `json:"data,omitempty"` // base64
	MediaType string          `json:"mediaType,omitempty"`
	Name      string          `json:"name,omitempty"`
	FileID    string          `json:"fileId,omitempty"`
	Signature string          `json:"signature,omitempty"` // a provider's seal on a reasoning part
	Raw       json.RawMessage `json:"-"`
}

// Size returns how many bytes a part has, without the names of its fields.
func (p Part) Size() int {
	return len(p.Text) + len(p.URL) + len(p.Data) + len(p.MediaType) + len(p.Name) + len(p.FileID) + len(p.Signature) + len(p.Raw)
}

func knownPart(kind string) bool {
	switch kind {
	case PartText, PartImage, PartFile, PartAudio, PartReasoning:
		return true
	}
	return false
}

// MarshalJSON writes an opaque part as it came.
func (p Part) MarshalJSON() ([]byte, error) {
	if p.Raw != nil {
		return p.Raw, nil
	}
	type plainPart Part
	return encode(plainPart(p))
}

// UnmarshalJSON keeps parts of unknown type whole.
func (p *Part) UnmarshalJSON(data []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return decodeProblem("content", err)
	}
	if head.Type == "" {
		return invalid("content", "a part has no type")
	}
	if !knownPart(head.Type) {
		raw, err := compact("content", data)
		*p = Part{Type: head.Type, Raw: raw}
		return err
	}
	type plainPart Part
	var q plainPart
	if err := DecodeStrict("content", data, &q); err != nil {
		return err
	}
	*p = Part(q)
	return nil
}

// MarshalJSON writes a string for a single plain text part.
func (c Content) MarshalJSON() ([]byte, error) {
	if len(c) == 0 {
		return []byte(`""`), nil
	}
	if len(c) == 1 && c.plainText() {
		return encode(c[0].Text)
	}
	return encode([]Part(c))
}

func (c Content) plainText() bool {
	p := c[0]
	return p.Type == PartText && p.Raw == nil && p.URL == "" && p.Data == "" && p.MediaType == "" &&
		p.Name == "" && p.FileID == "" && p.Signature == ""
}

// UnmarshalJSON reads a string or a list of parts.
func (c *Content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = nil
		if text != "" {
			*c = Text(text)
		}
		return nil
	}
	var parts []Part
	if err := json.Unmarshal(data, &parts); err != nil {
		return decodeProblem("content", err)
	}
	*c = parts
	if len(parts) == 0 {
		*c = nil
	}
	return nil
}

// Text joins the text parts with newlines.
func (c Content) Text() string {
	if len(c) == 1 && c[0].Type == PartText {
		return c[0].Text
	}
	var texts []string
	for _, p := range c {
		if p.Type == PartText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Blank reports content that says nothing: no parts, or white space only.
func (c Content) Blank() bool {
	for _, p := range c {
		if p.Type != PartText || strings.TrimSpace(p.Text) != "" {
			return false
		}
	}
	return true
}

// Clone is a deep copy.
func (m Message) Clone() Message {
	return m.cloneWith(slices.Clone(m.Content))
}

// cloneWith is a deep copy of m whose content is a copy that the caller made.
func (m Message) cloneWith(content Content) Message {
	m.Content = content
	for i := range m.Content {
		m.Content[i].Raw = bytes.Clone(m.Content[i].Raw)
	}
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Arguments = bytes.Clone(m.ToolCalls[i].Arguments)
	}
	m.ToolResult = clonePtr(m.ToolResult)
	if m.Metadata != nil {
		m.Metadata = m.Metadata.Clone()
	}
	return m
}

// normal is a deep copy of m as a session keeps it, or the reason why it
// cannot be kept.
func (m Message) normal() (Message, error) { return m.Clone().normalise() }

// normalise is normal for a message that nobody else holds.
func (m Message) normalise() (Message, error) {
	m.CreatedAt = Instant(m.CreatedAt)
	if err := checkToken("message.id", m.ID); err != nil {
		return m, err
	}
	if err := oneOf("message.role", m.Role, Roles()); err != nil {
		return m, err
	}
	if (m.Role == RoleTool) != (m.ToolResult != nil) {
		return m, invalid("message.toolResult", "a tool message, and no other, has a result")
	}
	if len(m.ToolCalls) > 0 && m.Role != RoleAssistant {
		return m, invalid("message.toolCalls", "only an assistant calls tools, not %s", m.Role)
	}
	cleanAll(&m.Name, &m.ExecutionID, &m.StepID, &m.Unit, &m.Lane, &m.RequestID, &m.RootRequestID, &m.ParentRequestID)
	if err := m.Content.normalise(); err != nil {
		return m, err
	}
	for i := range m.ToolCalls {
		if err := m.ToolCalls[i].normalise(); err != nil {
			return m, err
		}
	}
	if r := m.ToolResult; r != nil {
		cleanAll(&r.CallID, &r.ToolName, &r.Content)
	}
	if len(m.ToolCalls) == 0 {
		m.ToolCalls = nil
	}
	if len(m.Content) == 0 || len(m.Content) == 1 && m.Content.plainText() && m.Content[0].Text == "" {
		m.Content = nil
	}
	if len(m.Metadata) == 0 {
		m.Metadata = nil
		return m, nil
	}
	var err error
	m.Metadata, err = compactValues("message.metadata", m.Metadata, 0)
	return m, err
}

func (c Content) normalise() error {
	for i := range c {
		p := &c[i]
		if p.Type == "" {
			return invalid("message.content", "part %d has no type", i)
		}
		if knownPart(p.Type) {
			p.Raw = nil
			cleanAll(&p.Text, &p.URL, &p.Data, &p.MediaType, &p.Name, &p.FileID, &p.Signature)
			continue
		}
		if p.Raw == nil {
			return invalid("message.content", "part %d has the unknown type %s and no raw form", i, quoted(p.Type))
		}
		var whole Part
		if err := whole.UnmarshalJSON(p.Raw); err != nil {
			return err
		}
		if whole.Type != p.Type {
			return invalid("message.content", "part %d says type %s but its raw form %s", i, quoted(p.Type), quoted(whole.Type))
		}
		*p = whole
	}
	return nil
}

func (c *ToolCall) normalise() error {
	cleanAll(&c.ID, &c.Name)
	if c.Name == "" {
		return invalid("message.toolCalls", "a call has no tool name")
	}
	if len(bytes.TrimSpace(c.Arguments)) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	raw, err := compact("message.toolCalls.arguments", c.Arguments)
	if err != nil {
		return err
	}
	if raw[0] != '{' {
		return invalid("message.toolCalls.arguments", "of call %s to %s are not an object", quoted(c.ID), quoted(c.Name))
	}
	c.Arguments = raw
	return nil
}
