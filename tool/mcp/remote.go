package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// The most bytes of a tool's description and schema: every request to a model
// carries them.
const (
	maxDescription = 4 << 10
	maxSchema      = 64 << 10
)

// wrapTools turns a server's tools into ours. Unusable ones are left out and
// logged.
func (s *Server) wrapTools(found []*sdk.Tool) []tool.Tool {
	var tools []tool.Tool
	seen := map[string]bool{}
	for _, t := range found {
		spec, err := s.spec(t)
		if err == nil && seen[spec.Name] {
			err = errors.New("the server lists it twice")
		}
		if err != nil {
			s.config.Logger.Warn("mcp tool left out", "server", s.id, "tool", tool.Head(tool.Plain(s.secrets.mask(t.Name)), maxName), "error", err)
			continue
		}
		seen[spec.Name] = true
		tools = append(tools, remote{server: s, name: t.Name, spec: spec})
	}
	return tools
}

// spec describes a server's tool. The server's hints are used only to decide
// whether a call may be repeated.
func (s *Server) spec(t *sdk.Tool) (tool.Spec, error) {
	if t.Name == "" {
		return tool.Spec{}, errors.New("it has no name")
	}
	schema, err := s.schema(t.InputSchema)
	if err != nil {
		return tool.Spec{}, err
	}
	spec := tool.Spec{
		Name:        toolName(s.id, t.Name),
		Description: tool.Head(tool.Plain(s.secrets.mask(t.Description)), maxDescription),
		Schema:      schema,
		Timeout:     s.config.CallTimeout + s.config.StopTimeout, // CallTimeout ends first and gives a better error
		Effects:     tool.MCP,
		Server:      s.id,
	}
	switch hints := t.Annotations; {
	case hints == nil:
	case hints.ReadOnlyHint:
		spec.Nature = tool.ReadOnly
	case hints.IdempotentHint:
		spec.Nature = tool.Idempotent
	}
	return spec, nil
}

// schema checks that a tool's arguments are an object and says so in the schema:
// providers demand it.
func (s *Server) schema(given any) (json.RawMessage, error) {
	if given == nil {
		return nil, nil
	}
	object, ok := given.(map[string]any)
	if !ok {
		return nil, errors.New("its schema is not a JSON object")
	}
	switch object["type"] {
	case nil:
		object["type"] = "object"
	case "object":
	default:
		return nil, errors.New("its schema does not describe an object")
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode its schema: %w", err)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("its schema has %d bytes, the limit is %d", len(raw), maxSchema)
	}
	return json.RawMessage(s.secrets.mask(string(raw))), nil
}

// remote is a tool of a server.
type remote struct {
	server *Server
	name   string // in the server's own list
	spec   tool.Spec
}

func (r remote) Spec() tool.Spec { return r.spec }

// Call calls the tool, after a reconnect if the connection was lost.
func (r remote) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	arguments := c.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &object); err != nil || object == nil {
		return tool.Result{}, &session.InvalidError{Field: "arguments", Reason: "are not a JSON object"}
	}
	s := r.server
	bounded, stop := context.WithTimeout(ctx, s.config.CallTimeout)
	defer stop()
	result, err := s.call(bounded, &sdk.CallToolParams{Name: r.name, Arguments: arguments}, r.spec.Nature != tool.Once)
	switch {
	case err == nil:
		return s.result(result), nil
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case bounded.Err() != nil:
		return tool.Result{}, fmt.Errorf("mcp server %q: no answer within %v", s.id, s.config.CallTimeout)
	}
	return tool.Result{}, s.secrets.redactError(err)
}
