package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// reserved lists fields that options cannot set: they come from elsewhere, or
// the answer could not be read.
var reserved = []string{"messages", "model", "stream", "system"}

// jsonOnly asks for JSON: the protocol has no field for it.
const jsonOnly = "Answer with a single JSON object and nothing else."

// body writes the request in this protocol. Options override other fields; the
// provider's own tools under "tools" are added to ours.
func (m *Model) body(r llm.Request) (map[string]any, error) {
	messages, system := sentMessages(r)
	if len(messages) == 0 {
		return nil, &session.InvalidError{Field: "messages", Reason: "are empty: there is nothing to send"}
	}
	body := map[string]any{"model": m.config.Model, "messages": messages, "stream": true, "max_tokens": m.maxTokens(r.Params)}
	if err := setFormat(body, &system, r.ResponseFormat); err != nil {
		return nil, err
	}
	if len(system) > 0 {
		body["system"] = strings.Join(system, "\n\n")
	}
	if p := r.Params; p.Temperature != nil {
		body["temperature"] = *p.Temperature
	}
	if p := r.Params; p.TopP != nil {
		body["top_p"] = *p.TopP
	}
	// The provider refuses blank stop sequences.
	stop := slices.DeleteFunc(slices.Clone(r.Params.Stop), func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(stop) > 0 {
		body["stop_sequences"] = stop
	}
	offered := sentTools(r.Tools)
	for key, value := range r.Params.Options {
		switch {
		case slices.Contains(reserved, key):
			return nil, &session.InvalidError{Field: "modelParams.options." + key, Reason: "cannot be set as an option: it is set elsewhere"}
		case key == "tools":
			var theirs []json.RawMessage
			if err := json.Unmarshal(value, &theirs); err != nil {
				return nil, &session.InvalidError{Field: "modelParams.options.tools", Reason: "is not a list"}
			}
			for _, t := range theirs {
				offered = append(offered, t)
			}
		default:
			body[key] = value
		}
	}
	if len(offered) == 0 {
		if offered = usedTools(messages); len(offered) > 0 {
			body["tool_choice"] = map[string]any{"type": "none"}
		}
	}
	if len(offered) > 0 {
		body["tools"] = offered
	}
	return body, nil
}

// maxTokens returns the limit of the answer. If the session sets none, the
// thinking budget of the options is added: the protocol refuses less.
func (m *Model) maxTokens(p session.ModelParams) int {
	if p.MaxOutputTokens != nil {
		return *p.MaxOutputTokens
	}
	var thinking struct {
		Budget wire.Count `json:"budget_tokens"`
	}
	if raw := p.Options["thinking"]; len(raw) > 0 && json.Unmarshal(raw, &thinking) == nil && int(thinking.Budget) >= m.config.MaxTokens {
		return m.config.MaxTokens + int(thinking.Budget)
	}
	return m.config.MaxTokens
}

// setFormat requests a format of the answer.
func setFormat(body map[string]any, system *[]string, f *session.ResponseFormat) error {
	if f == nil {
		return nil
	}
	switch f.Type {
	case "", "text":
	case "json_object":
		*system = append(*system, jsonOnly)
	case "json_schema":
		if len(f.Schema) == 0 {
			return &session.InvalidError{Field: "responseFormat.schema", Reason: "is required with json_schema"}
		}
		body["output_config"] = map[string]any{"format": map[string]any{"type": f.Type, "schema": f.Schema}}
	default:
		return &session.InvalidError{Field: "responseFormat.type", Reason: fmt.Sprintf("%q is not text, json_object or json_schema", f.Type)}
	}
	return nil
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

func sentTools(list []llm.Tool) []any {
	var all []any
	for _, t := range list {
		schema := t.Schema
		if len(schema) == 0 {
			schema = anyObject
		}
		all = append(all, tool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	return all
}

// usedTools lists the tools that earlier answers used. The protocol refuses a
// transcript with calls but no tools, so they are listed, with tool_choice none.
func usedTools(messages []sentMessage) []any {
	var all []any
	seen := map[string]bool{}
	for _, t := range messages {
		for _, b := range t.Content {
			if name, ok := b["name"].(string); ok && b["type"] == "tool_use" && !seen[name] {
				seen[name] = true
				all = append(all, tool{Name: name, InputSchema: anyObject})
			}
		}
	}
	return all
}
