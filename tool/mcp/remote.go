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

// Bounds on what a server may say about a tool, in bytes. Every request to a
// model carries it.
const (
	maxDescription = 4 << 10
	maxSchema      = 64 << 10
)

// adopt makes tools of what a server lists. What cannot be used is logged.
func (s *Server) adopt(found []*sdk.Tool) []tool.Tool {
	var tools []tool.Tool
	taken := map[string]bool{}
	for _, t := range found {
		spec, err := s.spec(t)
		if err == nil && taken[spec.Name] {
			err = errors.New("it is there twice")
		}
		if err != nil {
			s.config.Logger.Warn("mcp tool left out", "server", s.id, "tool", tool.Head(tool.Plain(s.secrets.masked(t.Name)), maxName), "error", err)
			continue
		}
		taken[spec.Name] = true
		tools = append(tools, remote{server: s, name: t.Name, spec: spec})
	}
	return tools
}

// spec describes a server's tool. What it says about itself is believed no
// further than to decide whether a call may run again.
func (s *Server) spec(t *sdk.Tool) (tool.Spec, error) {
	if t.Name == "" {
		return tool.Spec{}, errors.New("it has no name")
	}
	schema, err := s.schema(t.InputSchema)
	if err != nil {
		return tool.Spec{}, err
	}
	spec := tool.Spec{
		Name:        nameOf(s.id, t.Name),
		Description: tool.Head(tool.Plain(s.secrets.masked(t.Description)), maxDescription),
		Schema:      schema,
		Timeout:     s.config.CallTimeout + s.config.StopTimeout, // our own comes first and says more
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

// schema is that of a tool's arguments, an object. Providers want it to say so.
func (s *Server) schema(given any) (json.RawMessage, error) {
	if given == nil {
		return nil, nil
	}
	object, ok := given.(map[string]any)
	if !ok {
		return nil, errors.New("its schema is no object")
	}
	switch object["type"] {
	case nil:
		object["type"] = "object"
	case "object":
	default:
		return nil, errors.New("its schema describes no object")
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode its schema: %w", err)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("its schema has %d bytes, at most %d", len(raw), maxSchema)
	}
	return json.RawMessage(s.secrets.masked(string(raw))), nil
}

// remote is a tool of a server.
type remote struct {
	server *Server
	name   string // as the server knows it
	spec   tool.Spec
}

// Spec describes the tool.
func (r remote) Spec() tool.Spec { return r.spec }

// Call calls the tool. A server that was lost is reached again first.
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
		return tool.Result{}, fmt.Errorf("mcp server %q: no answer in %v", s.id, s.config.CallTimeout)
	}
	return tool.Result{}, s.secrets.told(err)
}
