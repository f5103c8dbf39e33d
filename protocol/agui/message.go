package agui

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// message is one message of a thread: the fields that its role has are set.
type message struct {
	ID         string     `json:"id"`
	Role       string     `json:"role"`
	Name       string     `json:"name,omitempty"`
	Content    *content   `json:"content,omitempty"`
	ToolCalls  []toolCall `json:"toolCalls,omitempty"`
	ToolCallID string     `json:"toolCallId,omitempty"`
	Error      string     `json:"error,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// part is one part of the content of a message.
type part struct {
	Type   string  `json:"type"`
	Text   *string `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
}

// source is where the bytes of a part are: in it, at an address, or with a
// provider.
type source struct {
	Type     string `json:"type"`
	Value    string `json:"value"`
	MimeType string `json:"mimeType,omitempty"`
}

// content is what a message says: a text, or a list of parts.
type content struct {
	parts   []part
	unknown bool // neither, as messages of other roles have it
}

func textContent(text string) *content { return &content{parts: []part{{Type: "text", Text: &text}}} }

// MarshalJSON writes one text as such.
func (c content) MarshalJSON() ([]byte, error) {
	if len(c.parts) == 1 && c.parts[0].Text != nil {
		return json.Marshal(*c.parts[0].Text)
	}
	return json.Marshal(c.parts)
}

// UnmarshalJSON reads both forms.
func (c *content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = *textContent(text)
		return nil
	}
	c.unknown = json.Unmarshal(data, &c.parts) != nil
	return nil
}

// read returns the parts of the content.
func (m message) read() ([]part, error) {
	if m.Content == nil || m.Content.unknown {
		return nil, protocol.Invalid("messages", "the content of the message "+m.ID+" is neither a text nor a list of parts")
	}
	return m.Content.parts, nil
}

// parts returns what a message of a user says.
func (m message) parts() (session.Content, error) {
	parts, err := m.read()
	if err != nil {
		return nil, err
	}
	kinds := map[string]string{"image": session.PartImage, "audio": session.PartAudio, "video": session.PartFile, "document": session.PartFile}
	var says session.Content
	for _, p := range parts {
		kind, media := kinds[p.Type]
		switch {
		case p.Type == "text" && p.Text != nil:
			says = append(says, session.Part{Type: session.PartText, Text: *p.Text})
		case media && p.Source != nil && p.Source.Type == "data":
			says = append(says, session.Part{Type: kind, Data: p.Source.Value, MediaType: p.Source.MimeType})
		case media && p.Source != nil && p.Source.Type == "url":
			says = append(says, session.Part{Type: kind, URL: p.Source.Value, MediaType: p.Source.MimeType})
		case media && p.Source != nil && p.Source.Type == "file":
			says = append(says, session.Part{Type: kind, FileID: p.Source.Value, MediaType: p.Source.MimeType})
		default:
			return nil, protocol.Invalid("messages", "a part of the type "+p.Type+" is not supported in a message of a user, or lacks what it must have")
		}
	}
	return says, nil
}

// resultText returns what a tool of the client has come to.
func (m message) resultText() (string, error) {
	parts, err := m.read()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", protocol.Invalid("messages", "a part of the type "+p.Type+" is not supported in the result of a tool")
		}
		text.WriteString(*p.Text)
	}
	return text.String(), nil
}

// messagesOf returns the messages of a thread to a change, and all of its users.
// A result that the client has brought keeps the id that it has there.
func (in *input) messagesOf(s session.Session, to int64) []message {
	p := projector.New(s.ID())
	for _, m := range s.All() {
		if m.Seq <= to || m.Role == session.RoleUser {
			p.Apply(holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: m.Seq, At: m.CreatedAt, Change: session.MessageAdded{Message: m}}}})
		}
	}
	messages := []message{}
	for _, i := range p.Items() {
		switch {
		case i.Unit != "":
		case i.Message != nil && i.Message.Role == session.RoleUser:
			messages = append(messages, message{ID: i.Message.MessageID, Role: "user", Name: i.Message.Name, Content: contentOf(i.Message.Content)})
		case i.Message != nil && i.Message.Role == session.RoleAssistant:
			messages = append(messages, message{ID: i.ID, Role: "assistant", Content: textContent(i.Message.Text)})
		case i.Reasoning != nil:
			messages = append(messages, message{ID: i.ID, Role: "reasoning", Content: textContent(i.Reasoning.Text)})
		case i.Call != nil:
			messages = append(messages, in.callMessages(i.Call)...)
		}
	}
	return messages
}

// callMessages returns a call, and its result if it has one. A call is a message
// of its own, with the id of the call, as clients have it that follow a run.
func (in *input) callMessages(c *projector.Call) []message {
	call := toolCall{ID: c.CallID, Type: "function", Function: function{c.Name, string(c.Arguments)}}
	messages := []message{{ID: c.CallID, Role: "assistant", ToolCalls: []toolCall{call}}}
	if c.Result == nil {
		return messages
	}
	result := message{ID: resultID(c), Role: "tool", ToolCallID: c.CallID, Content: textContent(c.Result.Content)}
	if own := in.result(c.CallID); own != nil {
		result.ID = own.ID
	}
	if c.Result.IsError {
		result.Error = cmp.Or(c.Result.Content, "it failed")
	}
	return append(messages, result)
}

func resultID(c *projector.Call) string { return cmp.Or(c.Result.MessageID, c.CallID+"/result") }

// contentOf returns what a user has said, without what the application added.
func contentOf(said session.Content) *content {
	kinds := map[string]string{session.PartImage: "image", session.PartAudio: "audio", session.PartFile: "document"}
	parts := []part{}
	for _, p := range said {
		if p.Type == session.PartText {
			if p.Name != contextName {
				parts = append(parts, part{Type: "text", Text: &p.Text})
			}
			continue
		}
		from := source{Type: "data", Value: p.Data, MimeType: p.MediaType}
		switch {
		case p.URL != "":
			from.Type, from.Value = "url", p.URL
		case p.FileID != "":
			from.Type, from.Value = "file", p.FileID
		}
		if kind := kinds[p.Type]; kind != "" {
			parts = append(parts, part{Type: kind, Source: &from})
		}
	}
	return &content{parts: parts}
}
