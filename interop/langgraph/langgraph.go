// Package langgraph imports the threads that LangGraph keeps as checkpoints in a
// SQLite file, by its Python and its JavaScript library. A thread becomes a
// session that shows the model the messages of the last checkpoint. Messages that
// only earlier checkpoints have are before them, as history. A branch of a thread
// that was given up becomes a session of its own.
package langgraph

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// Format is the format in the import change of a session.
const Format = "langgraph.checkpoint"

// Detect reports whether a file has the tables of the checkpointer.
func Detect(ctx context.Context, d *foreign.Database) (bool, error) {
	return d.Has(ctx, "checkpoints", "writes")
}

// Read reads the threads of a file that have messages. It goes through the file
// twice: what one checkpoint names as a credential, another may quote.
func Read(ctx context.Context, d *foreign.Database) ([]foreign.Conversation, error) {
	var secrets foreign.Secrets
	err := eachCheckpoint(ctx, d, func(_, _ string, v any) error {
		secrets.Find(v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var threads []*thread
	err = eachCheckpoint(ctx, d, func(threadID, id string, v any) error {
		if n := len(threads); n == 0 || threads[n-1].id != threadID {
			threads = append(threads, &thread{id: threadID})
		}
		c, err := readCheckpoint(secrets.Mask(v))
		c.id = id
		threads[len(threads)-1].add(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []foreign.Conversation
	for _, t := range threads {
		all = append(all, t.conversations()...)
	}
	if len(all) > 0 {
		secrets.Note(&all[0].Report)
	}
	return all, nil
}

// eachCheckpoint calls visit with what each checkpoint of a thread has, the
// oldest first.
func eachCheckpoint(ctx context.Context, d *foreign.Database, visit func(threadID, id string, v any) error) error {
	rows, err := d.QueryContext(ctx, `SELECT coalesce(thread_id, ''), coalesce(checkpoint_id, ''), coalesce(type, 'json'), checkpoint FROM checkpoints
		WHERE checkpoint_ns = '' ORDER BY thread_id, checkpoint_id`)
	if err != nil {
		return &session.CorruptError{Reason: err.Error()}
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var threadID, id, form string
		var data []byte
		if err := rows.Scan(&threadID, &id, &form, &data); err != nil {
			return &session.CorruptError{Reason: err.Error()}
		}
		v, err := decode(form, data)
		if err == nil {
			err = visit(threadID, id, v)
		}
		if err != nil {
			return &session.CorruptError{ID: threadID, Path: "checkpoint " + id, Reason: err.Error()}
		}
	}
	if err := rows.Err(); err != nil {
		return &session.CorruptError{Reason: err.Error()}
	}
	return nil
}

// checkpoint is the state of a thread at one time.
type checkpoint struct {
	id       string
	at       time.Time
	channel  string // that has the messages
	others   []string
	messages []message
}

// message is one of LangChain. Arguments of calls are objects.
type message struct {
	Kind       string          `json:"type"`
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	Status     string          `json:"status"`
	ToolCalls  []struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"tool_calls"`
	Metadata struct {
		Model    string `json:"model_name"`
		Provider string `json:"model_provider"`
	} `json:"response_metadata"`

	digest string // of all of the above
}

// decode reads a checkpoint in one of the forms that the libraries write.
func decode(form string, data []byte) (any, error) {
	switch form {
	case "msgpack":
		return unpack(data)
	case "json":
		return foreign.Parse(data)
	}
	return nil, fmt.Errorf("its form %q cannot be read here; only msgpack and json can", form)
}

// readCheckpoint finds the channel with the messages: the one of that name, else
// the first that has any.
func readCheckpoint(v any) (c checkpoint, err error) {
	object, _ := v.(map[string]any)
	values, ok := object["channel_values"].(map[string]any)
	if !ok {
		return c, fmt.Errorf("it has no channel_values")
	}
	if at, ok := object["ts"].(string); ok {
		if c.at, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return c, err
		}
	}
	names := slices.Sorted(maps.Keys(values))
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	for _, name := range names {
		messages, err := readMessages(values[name])
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		if c.channel == "" && len(messages) > 0 {
			c.channel, c.messages = name, messages
			continue
		}
		if !strings.HasPrefix(name, "__") && !strings.HasPrefix(name, "branch:") {
			c.others = append(c.others, name)
		}
	}
	return c, nil
}

// rank sorts the usual name of the channel first.
func rank(channel string) string {
	if channel == "messages" {
		return ""
	}
	return channel
}

var kinds = []string{"human", "ai", "tool", "system", "developer", "function", "chat"}

// readMessages returns the messages of a channel, none where it has others than
// messages. Among messages, one of an unknown type is kept for the report.
func readMessages(v any) ([]message, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, nil
	}
	var messages []message
	known := false
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, nil
		}
		object = constructed(object)
		class, ok := object["type"].(string)
		if !ok {
			return nil, nil
		}
		m := message{Kind: strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(class, "Chunk"), "Message"))}
		if slices.Contains(kinds, m.Kind) {
			known = true
			raw, err := json.Marshal(object)
			if err != nil {
				return nil, err
			}
			kind := m.Kind
			if err := foreign.Unmarshal(raw, &m); err != nil {
				return nil, err
			}
			m.Kind = kind
		}
		var err error
		if m.digest, err = digestOf(m); err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	if !known {
		return nil, nil
	}
	return messages, nil
}

func digestOf(m message) (string, error) {
	data, err := json.Marshal(m)
	sum := sha256.Sum256(data)
	return string(sum[:]), err
}

// constructed returns the fields of an object that is written as a call of its
// constructor, with the name of the class as its type.
func constructed(object map[string]any) map[string]any {
	fields, made := object["kwargs"].(map[string]any)
	class, named := object["id"].([]any)
	if !made || !named || len(class) == 0 || object["lc"] == nil {
		return object
	}
	fields["type"] = class[len(class)-1]
	return fields
}

func add(c *foreign.Conversation, m message) {
	to := session.Message{ID: m.ID, Content: partsOf(c, m.Content)}
	switch m.Kind {
	case "human":
		to.Role, to.Name = session.RoleUser, m.Name
	case "ai":
		to.Role = session.RoleAssistant
		for _, call := range m.ToolCalls {
			to.ToolCalls = append(to.ToolCalls, session.ToolCall{ID: call.ID, Name: call.Name, Arguments: foreign.Arguments(call.Args)})
		}
		if p := m.Metadata; p.Model != "" && (p.Provider == "openai" || p.Provider == "anthropic") {
			c.Model = p.Provider + "/" + p.Model
		}
	case "tool":
		to.Role, to.ToolResult = session.RoleTool, &session.ToolResult{CallID: m.ToolCallID, Content: to.Content.Text(), IsError: m.Status == "error"}
		to.Content = nil
	default:
		c.Report.Drop("messages of the type " + m.Kind)
		return
	}
	c.Messages = append(c.Messages, to)
}

// partsOf returns content: one text, or parts. Calls among the parts are also in
// the list of calls.
func partsOf(c *foreign.Conversation, content json.RawMessage) session.Content {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return session.Text(text)
	}
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	var parts session.Content
	for _, raw := range list {
		var p struct {
			Type      string          `json:"type"`
			Text      string          `json:"text"`
			Thinking  string          `json:"thinking"`
			Signature string          `json:"signature"`
			ImageURL  json.RawMessage `json:"image_url"`
		}
		if json.Unmarshal(raw, &text) == nil {
			p.Type, p.Text = "text", text
		} else if json.Unmarshal(raw, &p) != nil {
			continue
		}
		switch address := imageAddress(p.ImageURL); {
		case p.Type == "text":
			parts = append(parts, session.Part{Type: session.PartText, Text: p.Text})
		case p.Type == "thinking":
			parts = append(parts, session.Part{Type: session.PartReasoning, Text: p.Thinking, Signature: p.Signature})
		case p.Type == "image_url" && address != "":
			parts = append(parts, protocol.MediaPart(session.PartImage, address, ""))
		case p.Type != "tool_use":
			c.Report.Drop("content of the type " + p.Type)
		}
	}
	return parts
}

// imageAddress returns an address that is written as a text or in an object.
func imageAddress(raw json.RawMessage) string {
	var address string
	if json.Unmarshal(raw, &address) == nil {
		return address
	}
	var in struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return ""
	}
	return in.URL
}
