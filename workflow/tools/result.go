package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/tool"
)

// newTool makes a tool whose failures are results.
func newTool[In, Out any](s tool.Spec, call func(context.Context, In) (Out, error)) (tool.Tool, error) {
	t, err := tool.Func(s, call)
	return resultTool{t}, err
}

// resultTool turns errors into results.
type resultTool struct{ tool.Tool }

func (t resultTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if len(bytes.TrimSpace(c.Arguments)) == 0 { // some models send nothing for no arguments
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

// encodeJSON encodes a value as compact JSON, without needless escapes.
func encodeJSON(value any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", fmt.Errorf("encode result: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// valueOr returns what a pointer points to, or a default for nil.
func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
