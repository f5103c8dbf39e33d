package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/tool"
)

// newTool is tool.Func for a tool whose failures are results.
func newTool[In, Out any](s tool.Spec, call func(context.Context, In) (Out, error)) (tool.Tool, error) {
	t, err := tool.Func(s, call)
	return plainTool{t}, err
}

// plainTool turns errors into results.
type plainTool struct{ tool.Tool }

func (t plainTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if len(bytes.TrimSpace(c.Arguments)) == 0 { // how some models say that there are none
		c.Arguments = json.RawMessage("{}")
	}
	result, err := t.Tool.Call(ctx, c)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	}
	return tool.Result{Content: err.Error(), IsError: true}, nil
}

// compact is a value as JSON with nothing escaped that need not be.
func compact(value any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", fmt.Errorf("encode result: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// or is what a pointer points to, or what is meant where there is none.
func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
