package strands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

// foreignKey is where a session's message keeps the message it was made of,
// when it cannot be made again from what a session knows.
const foreignKey = "strands.message"

// ownKey is where, under "holdfast", a message keeps what the session said,
// when blocks cannot say it.
const ownKey = "messages"

// core is what a message says, in the form of a session.
type core struct {
	Role       session.Role        `json:"role"`
	Content    session.Content     `json:"content"`
	ToolCalls  []session.ToolCall  `json:"toolCalls,omitempty"`
	ToolResult *session.ToolResult `json:"toolResult,omitempty"`
}

// ToSession turns the messages of a conversation into those of a session. A message with tool
// results becomes one message for each, and one more if it says anything else.
// Ids are the prefix and the message's number; a message without a time is as
// old as the one before it.
//
// Redacted messages are what they were redacted to. Whatever else a session has
// no form for stays with the message, so that FromSession gives it back.
func ToSession(prefix string, list []Message) []session.Message {
	return slices.Concat(toGroups(prefix, list)...)
}

// toGroups does what ToSession does, message by message.
func toGroups(prefix string, list []Message) [][]session.Message {
	groups := make([][]session.Message, len(list))
	names := map[string]string{} // of tools, by call
	var last session.Message
	for i, m := range list {
		group := m.group()
		for k := range group {
			g := &group[k]
			g.ID = fmt.Sprintf("%s%d", prefix, m.Number)
			if k > 0 {
				g.ID += fmt.Sprintf(".%d", k)
			}
			g.CreatedAt, g.Unit = m.CreatedAt, m.Unit
			if g.CreatedAt.IsZero() {
				g.CreatedAt = last.CreatedAt
			}
			for _, call := range g.ToolCalls {
				names[call.ID] = call.Name
			}
			if g.ToolResult != nil && g.ToolResult.ToolName == "" {
				g.ToolResult.ToolName = names[g.ToolResult.CallID]
			}
		}
		body := m.Shown()
		// FromSession would join results to those before them, and would not
		// join anything else to them.
		joins := last.Role == session.RoleTool && group[0].Role == session.RoleTool && last.Unit == m.Unit
		parts := len(group) > 1 && group[len(group)-1].Role != session.RoleTool
		if raw := encoded(body); joins || parts || !bytes.Equal(encoded(bodyOf(group)), raw) {
			group[0].Metadata = session.Values{foreignKey: raw}
		}
		groups[i], last = group, group[len(group)-1]
	}
	return groups
}

// group returns what a message says, as messages of a session; at least one.
func (m Message) group() []session.Message {
	body := m.Shown()
	if raw, ok := m.Own.Get(ownKey); ok {
		if own, ok := ownGroup(raw); ok && bytes.Equal(encoded(bodyOf(own)), encoded(body)) {
			return own
		}
	}
	return body.messages()
}

// ownGroup reads what FromSession kept, if it is of the form that it writes.
func ownGroup(raw json.RawMessage) ([]session.Message, bool) {
	var cores []core
	if json.Unmarshal(raw, &cores) != nil || len(cores) == 0 {
		return nil, false
	}
	var group []session.Message
	for _, c := range cores {
		tool := c.Role == session.RoleTool
		if tool != (c.ToolResult != nil) || !tool && len(cores) > 1 || len(c.ToolCalls) > 0 && c.Role != session.RoleAssistant {
			return nil, false
		}
		group = append(group, session.Message{Role: c.Role, Content: c.Content, ToolCalls: c.ToolCalls, ToolResult: c.ToolResult})
	}
	return group, true
}

// messages returns messages of a session that say the same, as far as a session
// can.
func (b Body) messages() []session.Message {
	said := session.Message{Role: session.RoleUser}
	if b.Role == roleAssistant {
		said.Role = session.RoleAssistant
	}
	var results []session.Message
	for _, block := range b.Content {
		if said.Role == session.RoleAssistant {
			if call, ok := callOf(block); ok {
				said.ToolCalls = append(said.ToolCalls, call)
				continue
			}
		} else if result, ok := resultOf(block); ok {
			results = append(results, result)
			continue
		}
		said.Content = append(said.Content, partOf(block))
	}
	if len(results) > 0 && len(said.Content) == 0 {
		return results
	}
	if len(said.Content) == 1 && said.Content[0].Type == session.PartText && said.Content[0].Text == "" {
		said.Content = nil // as a session keeps it
	}
	return append(results, said)
}

// bodyOf joins messages of a session into one: an
// assistant's, a user's, or several tools'.
func bodyOf(group []session.Message) Body {
	b := Body{Role: roleUser}
	if group[0].Role == session.RoleAssistant {
		b.Role = roleAssistant
	}
	for _, m := range group {
		if m.ToolResult != nil {
			b.Content = append(b.Content, resultBlock(m))
			continue
		}
		b.Content = append(b.Content, contentBlocks(m.Content)...)
		for _, call := range m.ToolCalls {
			b.Content = append(b.Content, callBlock(call))
		}
	}
	return b
}

// FromSession turns a session's messages into those of a conversation, numbered
// from first on. Results of
// tools that stand together in one unit become one message. Only users,
// assistants and tools can speak in the layout: other roles are a
// session.InvalidError, as is what a session would not take.
//
// Ids, names, executions, steps and requests of messages have no place in the
// layout and are left behind.
func FromSession(first int, list []session.Message) ([]Message, error) {
	var made []Message
	for len(list) > 0 {
		n, body, err := nextBody(list)
		if err != nil {
			return nil, err
		}
		group := list[:n]
		own, err := session.JSON(cores(group))
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", group[0].ID, err)
		}
		m := Message{
			Number: first + len(made), Body: body, Unit: group[0].Unit,
			CreatedAt: session.Instant(group[0].CreatedAt), UpdatedAt: session.Instant(group[n-1].CreatedAt),
		}
		if !sameContent(body.messages(), group) {
			m.Own.Set(ownKey, own)
		}
		made = append(made, m)
		list = list[n:]
	}
	return made, nil
}

// nextBody returns the message that the first n messages of a session make up.
func nextBody(list []session.Message) (n int, body Body, err error) {
	if body, n := foreign(list); n > 0 {
		return n, body, nil
	}
	switch role := list[0].Role; role {
	case session.RoleUser, session.RoleAssistant:
		return 1, bodyOf(list[:1]), nil
	case session.RoleTool:
	default:
		return 0, Body{}, &session.InvalidError{Field: "message.role", Reason: fmt.Sprintf("%s cannot speak in a strands conversation", role)}
	}
	for n < len(list) && list[n].ToolResult != nil && list[n].Unit == list[0].Unit {
		if _, marked := list[n].Metadata[foreignKey]; marked && n > 0 {
			break
		}
		n++
	}
	if n == 0 {
		return 0, Body{}, &session.InvalidError{Field: "message.toolResult", Reason: "a tool's message has none"}
	}
	return n, bodyOf(list[:n]), nil
}

// foreign returns the message that the first n messages were made of, if it was kept
// and they still say the same.
func foreign(list []session.Message) (body Body, n int) {
	raw, ok := list[0].Metadata[foreignKey]
	if !ok || json.Unmarshal(raw, &body) != nil {
		return Body{}, 0
	}
	group := body.messages()
	if len(group) > len(list) || !sameContent(group, list[:len(group)]) {
		return Body{}, 0
	}
	return body, len(group)
}

// sameContent reports that two groups say the same. Tools' names are left out: the
// layout has them with the call only.
func sameContent(a, b []session.Message) bool {
	plain := func(group []session.Message) []byte {
		list := cores(group)
		for i := range list {
			if r := list[i].ToolResult; r != nil {
				unnamed := *r
				unnamed.ToolName = ""
				list[i].ToolResult = &unnamed
			}
		}
		return encoded(list)
	}
	return bytes.Equal(plain(a), plain(b))
}

func cores(group []session.Message) []core {
	list := make([]core, len(group))
	for i, m := range group {
		list[i] = core{Role: m.Role, Content: m.Content, ToolCalls: m.ToolCalls, ToolResult: m.ToolResult}
	}
	return list
}

// encoded returns a value's JSON in the one form that can be compared. Whatever was
// read has one.
func encoded(value any) json.RawMessage {
	raw, err := session.JSON(value)
	if err != nil {
		return nil
	}
	raw, err = session.CompactJSON("value", raw)
	if err != nil {
		return nil
	}
	return raw
}
