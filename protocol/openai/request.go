package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// request is the request of a response, as far as it is supported.
type request struct {
	Model              string            `json:"model,omitempty"`
	Input              json.RawMessage   `json:"input,omitempty"`
	Instructions       *string           `json:"instructions,omitempty"`
	PreviousResponseID string            `json:"previous_response_id,omitempty"`
	Conversation       json.RawMessage   `json:"conversation,omitempty"`
	Background         bool              `json:"background,omitempty"`
	Store              *bool             `json:"store,omitempty"`
	Stream             bool              `json:"stream,omitempty"`
	StreamOptions      *streamOptions    `json:"stream_options,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	Tools              []functionTool    `json:"tools,omitempty"`
	ToolChoice         json.RawMessage   `json:"tool_choice,omitempty"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls,omitempty"`
	MaxOutputTokens    *int              `json:"max_output_tokens,omitempty"`
	Temperature        *float64          `json:"temperature,omitempty"`
	TopP               *float64          `json:"top_p,omitempty"`
	Text               *textOption       `json:"text,omitempty"`
	Truncation         string            `json:"truncation,omitempty"`
	ServiceTier        string            `json:"service_tier,omitempty"`
	Include            []string          `json:"include,omitempty"`
}

type streamOptions struct {
	IncludeObfuscation bool `json:"include_obfuscation,omitempty"`
	IncludeUsage       bool `json:"include_usage,omitempty"`
}

// functionTool is a tool that the client carries out. What strict asks for is up
// to the model.
type functionTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

type textOption struct {
	Format *textFormat `json:"format,omitempty"`
}

type textFormat struct {
	Type        string          `json:"type"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

// check refuses values that are not supported.
func (r *request) check() error {
	switch {
	case r.PreviousResponseID != "" && len(r.Conversation) > 0:
		return refuse("previous_response_id", "'previous_response_id' and 'conversation' exclude each other.")
	case r.Background && !r.stored():
		return refuse("background", "A response in the background must be stored.")
	case r.ParallelToolCalls != nil && !*r.ParallelToolCalls:
		return refuse("parallel_tool_calls", "Unsupported value: 'parallel_tool_calls' can only be true here.")
	case r.Truncation != "" && r.Truncation != "disabled":
		return refuse("truncation", "Unsupported value: 'truncation' can only be 'disabled' here.")
	case r.ServiceTier != "" && r.ServiceTier != "auto" && r.ServiceTier != "default":
		return refuse("service_tier", "Unsupported value: 'service_tier' can only be 'auto' or 'default' here.")
	case len(r.Include) > 0:
		return refuse("include", "Unsupported value: 'include' can only be empty here.")
	case len(r.Metadata) > 16:
		return refuse("metadata", "'metadata' has more than 16 pairs.")
	}
	return checkTools(r.Tools, r.ToolChoice)
}

func checkTools(tools []functionTool, choice json.RawMessage) error {
	if choice := string(choice); choice != "" && choice != `"auto"` && choice != `"none"` {
		return refuse("tool_choice", "Unsupported value: 'tool_choice' can only be 'auto' or 'none' here.")
	}
	for _, t := range tools {
		if t.Type != "function" {
			return refuse("tools", "Tools of the type '%s' are not supported here, only functions. An agent brings its own tools.", t.Type)
		}
	}
	return nil
}

func (r *request) stored() bool { return r.Store == nil || *r.Store }

// conversationID returns the id of the session that is named as a conversation.
func (r *request) conversationID() (string, error) {
	if len(r.Conversation) == 0 {
		return "", nil
	}
	var id string
	var named conversationID
	if json.Unmarshal(r.Conversation, &id) != nil && json.Unmarshal(r.Conversation, &named) != nil || id+named.ID == "" {
		return "", refuse("conversation", "'conversation' is neither an id nor an object with one.")
	}
	return strings.TrimPrefix(id+named.ID, conversationPrefix), nil
}

// clientTools returns the tools that the client carries out.
func (r *request) clientTools() []session.ClientTool {
	if string(r.ToolChoice) == `"none"` {
		return nil
	}
	var list []session.ClientTool
	for _, t := range r.Tools {
		list = append(list, session.ClientTool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	return list
}

// params returns how the model is asked; nil: as it is by itself.
func (r *request) params() *session.ModelParams {
	if r.MaxOutputTokens == nil && r.Temperature == nil && r.TopP == nil {
		return nil
	}
	return &session.ModelParams{MaxOutputTokens: r.MaxOutputTokens, Temperature: r.Temperature, TopP: r.TopP}
}

func (r *request) format() *session.ResponseFormat {
	if r.Text == nil || r.Text.Format == nil || r.Text.Format.Type == "text" {
		return nil
	}
	f := r.Text.Format
	return &session.ResponseFormat{Type: f.Type, Schema: f.Schema, Name: f.Name, Strict: f.Strict}
}

// definitionName is the name of the definitions of sessions that were created
// with the name of a model alone.
const definitionName = "openai"

// definition returns what a new session is made of.
func (x *exchange) definition(r *request) (session.Definition, error) {
	if name, ok := strings.CutPrefix(r.Model, agentPrefix); ok {
		def, err := x.Host.Agent(name)
		switch {
		case err != nil:
			return def, missing("Model", r.Model)
		case r.Instructions != nil:
			return def, refuse("instructions", "The agent %s has instructions of its own.", name)
		case r.params() != nil || r.format() != nil:
			return def, refuse("model", "The agent %s has settings of its own: 'temperature', 'top_p', 'max_output_tokens' and 'text' are not supported with it.", name)
		}
		return def, nil
	}
	if r.Model == "" {
		return session.Definition{}, refuse("model", "Missing required parameter: 'model'.")
	}
	if !slices.ContainsFunc(x.models(), func(m model) bool { return m.ID == r.Model }) {
		if _, _, err := x.Runtime.Model(r.Model); err != nil {
			return session.Definition{}, missing("Model", r.Model)
		}
	}
	def := session.Definition{Name: definitionName, Model: r.Model, Tools: []string{}, ModelParams: r.params(), ResponseFormat: r.format()}
	if r.Instructions != nil {
		def.SystemPrompt = *r.Instructions
	}
	return def, nil
}

// requestHash tells one request from another, also of another key.
func (x *exchange) requestHash(r any) string {
	body, err := json.Marshal(r)
	if err != nil { // it was decoded from JSON
		return ""
	}
	sum := sha256.Sum256(append([]byte(x.ID+"\n"), body...))
	return hex.EncodeToString(sum[:16])
}
