// Package letta imports agents of Letta from their files (.af): the messages of
// each agent, and its memory blocks as the session's own memory.
package letta

import (
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
const Format = "letta.agent"

// Detect reports whether data is such a file: of several agents, or of one as
// earlier versions wrote it.
func Detect(data []byte) bool {
	var head struct {
		Agents   []json.RawMessage `json:"agents"`
		Blocks   []json.RawMessage `json:"blocks"`
		Type     string            `json:"agent_type"`
		Messages []json.RawMessage `json:"messages"`
	}
	return json.Unmarshal(data, &head) == nil && (head.Agents != nil && head.Blocks != nil || head.Type != "" && head.Messages != nil)
}

// file is what is looked at of a file. Earlier versions have the one agent in
// place of the list.
type file struct {
	agent
	Agents  []agent           `json:"agents"`
	Blocks  []block           `json:"blocks"`
	Tools   []json.RawMessage `json:"tools"`
	Sources []json.RawMessage `json:"sources"`
	Files   []json.RawMessage `json:"files"`
	Groups  []json.RawMessage `json:"groups"`
	MCP     []json.RawMessage `json:"mcp_servers"`
}

type agent struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	System     string            `json:"system"`
	Messages   []message         `json:"messages"`
	BlockIDs   []string          `json:"block_ids"`
	CoreMemory []block           `json:"core_memory"` // of earlier versions
	CreatedAt  moment            `json:"created_at"`
	Variables  []json.RawMessage `json:"tool_exec_environment_variables"`
	Model      struct {
		Model        string `json:"model"`
		EndpointType string `json:"model_endpoint_type"`
	} `json:"llm_config"`
}

type block struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Value string `json:"value"`
}

type message struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Text       string          `json:"text"` // of earlier versions
	CreatedAt  moment          `json:"created_at"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// moment is a time, with or without a zone. One of another form is none.
type moment struct{ time.Time }

// UnmarshalJSON reads a time.
func (m *moment) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(form, text); err == nil {
			m.Time = t.UTC()
			return nil
		}
	}
	return nil
}

// Read reads the agents of a file.
func Read(data []byte) ([]foreign.Conversation, error) {
	var f file
	var secrets foreign.Secrets
	if err := secrets.Decode(data, &f); err != nil {
		return nil, &session.CorruptError{Reason: err.Error()}
	}
	agents := f.Agents
	if agents == nil {
		agents = []agent{f.agent}
	}
	var all []foreign.Conversation
	for i, a := range agents {
		c, err := f.conversation(a)
		if err != nil {
			return nil, fmt.Errorf("agent %d: %w", i+1, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, &session.CorruptError{Path: "agents", Reason: "there is none"}
	}
	secrets.Note(&all[0].Report)
	return all, nil
}

func (f *file) conversation(a agent) (foreign.Conversation, error) {
	c := foreign.Conversation{Format: Format, ID: a.ID, Name: a.Name, Agent: a.Name, SystemPrompt: a.System, CreatedAt: a.CreatedAt.Time}
	if a.Model.Model != "" {
		c.Model = a.Model.EndpointType + "/" + a.Model.Model
		if a.Model.EndpointType != "openai" && a.Model.EndpointType != "anthropic" {
			c.Report.Note("its model %s is not set: no provider here has the name %q", a.Model.Model, a.Model.EndpointType)
			c.Model = ""
		}
	}
	for path, n := range map[string]int{
		"tools": len(f.Tools), "sources": len(f.Sources), "files": len(f.Files), "groups": len(f.Groups), "mcp_servers": len(f.MCP),
		"agents[*].tool_exec_environment_variables": len(a.Variables),
	} {
		if n > 0 {
			c.Report.Drop(path)
		}
	}
	if err := f.addBlocks(&c, a); err != nil {
		return c, err
	}
	for _, m := range a.Messages {
		addMessage(&c, m)
	}
	return c, nil
}

// addBlocks stores the memory blocks of an agent under blocks/LABEL.
func (f *file) addBlocks(c *foreign.Conversation, a agent) error {
	blocks := slices.Clone(a.CoreMemory)
	for _, b := range f.Blocks {
		if slices.Contains(a.BlockIDs, b.ID) {
			blocks = append(blocks, b)
		}
	}
	for _, b := range blocks {
		value, err := json.Marshal(b.Value)
		if err != nil {
			return &session.CorruptError{ID: c.ID, Path: "blocks", Reason: err.Error()}
		}
		if c.Variables == nil {
			c.Variables = map[string]json.RawMessage{}
		}
		c.Variables["blocks/"+b.Label] = value
	}
	if len(blocks) > 0 {
		c.Report.Note("its memory blocks are entries of the session's memory, below blocks/: %d", len(blocks))
	}
	return nil
}

// addMessage adds a message. Letta wraps what a person says and what a tool
// returns in JSON; messages that it writes itself in the name of a person, such
// as heartbeats, are left out.
func addMessage(c *foreign.Conversation, m message) {
	content := partsOf(c, m)
	to := session.Message{ID: m.ID, CreatedAt: m.CreatedAt.Time, Role: session.Role(m.Role), Content: content}
	switch m.Role {
	case "user":
		text, kind := unwrap(content.Text(), "message")
		if kind != "" && kind != "user_message" {
			c.Report.Drop("messages of the type " + kind)
			return
		}
		if kind != "" {
			to.Content = session.Text(text)
		}
	case "assistant":
		for _, call := range m.ToolCalls {
			to.ToolCalls = append(to.ToolCalls, session.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: foreign.Arguments([]byte(call.Function.Arguments))})
		}
	case "tool":
		text, _ := unwrap(content.Text(), "message")
		to.Content, to.ToolResult = nil, &session.ToolResult{CallID: m.ToolCallID, Content: text}
	default: // the system prompt is the agent's
		c.Report.Drop("messages of the role " + m.Role)
		return
	}
	c.Messages = append(c.Messages, to)
}

// unwrap returns what is said inside a wrapping, and its type. Text that is not
// wrapped is returned as it is.
func unwrap(text, field string) (said, kind string) {
	var wrapped map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &wrapped) != nil {
		return text, ""
	}
	var inner string
	if json.Unmarshal(wrapped[field], &inner) != nil {
		return text, ""
	}
	if json.Unmarshal(wrapped["type"], &kind) != nil {
		kind = ""
	}
	return inner, kind
}

func partsOf(c *foreign.Conversation, m message) session.Content {
	var text string
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &text) == nil {
		return session.Text(cmp.Or(text, m.Text))
	}
	var parts []struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		Reasoning string `json:"reasoning"`
		Signature string `json:"signature"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		c.Report.Drop("content that is neither text nor parts")
		return nil
	}
	var content session.Content
	for _, p := range parts {
		switch p.Type {
		case "text":
			content = append(content, session.Part{Type: session.PartText, Text: p.Text})
		case "reasoning":
			content = append(content, session.Part{Type: session.PartReasoning, Text: p.Reasoning, Signature: p.Signature})
		default:
			c.Report.Drop("content of the type " + p.Type)
		}
	}
	return content
}
