package agui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"

	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// input is the request of a run.
type input struct {
	ThreadID        string                     `json:"threadId"`
	RunID           string                     `json:"runId"`
	ProtocolVersion string                     `json:"protocolVersion"`
	State           json.RawMessage            `json:"state"`
	Messages        []message                  `json:"messages"`
	Tools           []clientTool               `json:"tools"`
	Context         []contextEntry             `json:"context"`
	ForwardedProps  map[string]json.RawMessage `json:"forwardedProps"`
	Resume          []resumeEntry              `json:"resume"`

	state session.Values // the state, by its keys
}

// clientTool is a tool that the client carries out.
type clientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Metadata    json.RawMessage `json:"metadata"`
}

// contextEntry is what the application knows when a message is sent.
type contextEntry struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// resumeEntry is the response to an interrupt.
type resumeEntry struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"`
	Payload     json.RawMessage `json:"payload"`
}

// knownVersion is of the protocol: later ones with the same first number add to it.
var knownVersion = regexp.MustCompile(`^1\.\d+$`)

// read reads a request, and refuses what is not supported by its name.
func (in *input) read(body io.Reader) error {
	err := protocol.Decode(body, in, "threadId", "runId", "protocolVersion", "state", "messages", "tools", "context", "forwardedProps", "resume")
	switch {
	case err != nil:
		return err
	case in.ThreadID == "":
		return protocol.Invalid("threadId", "it is missing")
	case in.RunID == "":
		return protocol.Invalid("runId", "it is missing")
	case in.ProtocolVersion != "" && !knownVersion.MatchString(in.ProtocolVersion):
		return protocol.Invalid("protocolVersion", "the server speaks 1.0")
	}
	for name := range in.ForwardedProps {
		return protocol.Invalid("forwardedProps."+name, "it is not supported here")
	}
	for _, t := range in.Tools {
		if len(t.Metadata) > 0 {
			return protocol.Invalid("tools", "the metadata of the tool "+t.Name+" is not supported here")
		}
	}
	for _, m := range in.Messages {
		if m.Role == "system" || m.Role == "developer" {
			return protocol.Invalid("messages", "a message of the role "+m.Role+" is not supported here: the agent has its own instructions")
		}
	}
	if n := len(in.Messages); n > 0 && in.Messages[n-1].Role == "user" {
		if _, err := in.Messages[n-1].parts(); err != nil {
			return err
		}
	}
	if state := bytes.TrimSpace(in.State); len(state) > 0 && string(state) != "null" {
		if json.Unmarshal(state, &in.state) != nil {
			return protocol.Invalid("state", "it is not an object")
		}
	}
	return nil
}

func (in *input) clientTools() []session.ClientTool {
	var tools []session.ClientTool
	for _, t := range in.Tools {
		tools = append(tools, session.ClientTool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	return tools
}

// contextName marks the parts of a message that the application has added. They
// are not shown as said.
const contextName = "context"

func (in *input) contextParts() session.Content {
	var parts session.Content
	for _, c := range in.Context {
		text := fmt.Sprintf("<context description=%q>\n%s\n</context>", c.Description, c.Value)
		parts = append(parts, session.Part{Type: session.PartText, Name: contextName, Text: text})
	}
	return parts
}

// result finds what the client brings of a call that it has carried out.
func (in *input) result(callID string) *message {
	for i, m := range in.Messages {
		if m.Role == "tool" && m.ToolCallID == callID {
			return &in.Messages[i]
		}
	}
	return nil
}
