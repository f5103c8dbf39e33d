package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// reserved lists fields that options cannot set: they come from elsewhere, or
// the answer could not be read.
var reserved = []string{"messages", "model", "n", "stream", "tools"}

// body writes the request in this protocol. Options override other fields.
func (m *Model) body(r llm.Request, d dialect) (map[string]any, error) {
	messages, err := m.messages(r)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"model": m.config.Model, "messages": messages}
	if d.stream {
		body["stream"] = true
		if d.usage {
			body["stream_options"] = map[string]any{"include_usage": true}
		}
	}
	if len(r.Tools) > 0 {
		body["tools"] = tools(r.Tools)
	}
	format, err := responseFormat(r.ResponseFormat)
	if err != nil {
		return nil, err
	}
	if format != nil {
		body["response_format"] = format
	}
	params(body, r.Params, d)
	for key, value := range r.Params.Options {
		if slices.Contains(reserved, key) {
			return nil, &session.InvalidError{Field: "modelParams.options." + key, Reason: "cannot be set as an option: it is set elsewhere"}
		}
		body[key] = value
	}
	return body, nil
}

func params(body map[string]any, p session.ModelParams, d dialect) {
	if p.MaxOutputTokens != nil {
		field := "max_tokens"
		if d.completionTokens {
			field = "max_completion_tokens"
		}
		body[field] = *p.MaxOutputTokens
	}
	if p.Temperature != nil {
		body["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		body["top_p"] = *p.TopP
	}
	if len(p.Stop) > 0 {
		body["stop"] = p.Stop
	}
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type sentTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

func tools(list []llm.Tool) []sentTool {
	var all []sentTool
	for _, t := range list {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		all = append(all, sentTool{Type: "function", Function: function{Name: t.Name, Description: t.Description, Parameters: schema}})
	}
	return all
}

// responseFormat returns nil for free text.
func responseFormat(f *session.ResponseFormat) (any, error) {
	if f == nil {
		return nil, nil
	}
	switch f.Type {
	case "", "text":
		return nil, nil
	case "json_object":
		return map[string]any{"type": f.Type}, nil
	case "json_schema":
		if len(f.Schema) == 0 {
			return nil, &session.InvalidError{Field: "responseFormat.schema", Reason: "is required with json_schema"}
		}
		name := "answer"
		if f.Name != "" {
			name = wire.ToolName(f.Name)
		}
		return map[string]any{
			"type": f.Type, "json_schema": map[string]any{"name": name, "schema": f.Schema, "strict": f.Strict},
		}, nil
	}
	return nil, &session.InvalidError{Field: "responseFormat.type", Reason: fmt.Sprintf("%q is not text, json_object or json_schema", f.Type)}
}
