package session

import (
	"encoding/json"
	"regexp"
)

// ClientTool is a tool that the caller's own program runs: the agent may call
// it, and the call waits for the caller's result.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its arguments, an object; nil takes any object
}

// ToolName is the form of tool names that every provider takes.
var ToolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func normalClientTools(tools []ClientTool) ([]ClientTool, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	list := make([]ClientTool, len(tools))
	for i, t := range tools {
		cleanAll(&t.Name, &t.Description)
		if !ToolName.MatchString(t.Name) {
			return nil, invalid("tools", "the name %s is not 1 to 64 letters, digits, hyphens or underscores", quoted(t.Name))
		}
		if seen[t.Name] {
			return nil, invalid("tools", "%s is there twice", quoted(t.Name))
		}
		seen[t.Name] = true
		if t.Schema != nil {
			var err error
			if t.Schema, err = compact("tools."+t.Name+".schema", t.Schema); err != nil {
				return nil, err
			}
			if len(t.Schema) == 0 || t.Schema[0] != '{' {
				return nil, invalid("tools."+t.Name+".schema", "is not an object")
			}
		}
		list[i] = t
	}
	return list, nil
}
