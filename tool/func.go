package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/holdfast-dev/holdfast/session"
)

// Func makes a tool of a Go function. The schema of its arguments is
// derived from In, a struct; unknown and mistyped arguments are refused before
// fn is called. What fn returns is the result: a string as it is, anything
// else as JSON. The spec's Schema is replaced.
func Func[In, Out any](spec Spec, fn func(ctx context.Context, in In) (Out, error)) (Tool, error) {
	schema, err := jsonschema.For[In](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {}, // any value, not the list of bytes that Go sees
	}})
	if err != nil {
		return nil, &session.InvalidError{Field: "tool", Reason: fmt.Sprintf("%q: no schema for its arguments: %v", spec.Name, err)}
	}
	if schema.Type != "object" {
		return nil, &session.InvalidError{Field: "tool", Reason: fmt.Sprintf("%q: its arguments are not a struct", spec.Name)}
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, &session.InvalidError{Field: "tool", Reason: fmt.Sprintf("%q: %v", spec.Name, err)}
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("encode schema of tool %q: %w", spec.Name, err)
	}
	spec.Schema = raw
	return funcTool[In, Out]{spec: spec, schema: resolved, fn: fn}, nil
}

type funcTool[In, Out any] struct {
	spec   Spec
	schema *jsonschema.Resolved
	fn     func(context.Context, In) (Out, error)
}

func (t funcTool[In, Out]) Spec() Spec { return t.spec }

func (t funcTool[In, Out]) Call(ctx context.Context, c Call) (Result, error) {
	in, err := t.decode(c.Arguments)
	if err != nil {
		return Result{}, &session.InvalidError{Field: "arguments", Reason: err.Error()}
	}
	out, err := t.fn(ctx, in)
	if err != nil {
		return Result{}, err
	}
	switch v := any(out).(type) {
	case string:
		return Result{Content: v}, nil
	case Result:
		return v, nil
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return Result{}, fmt.Errorf("encode result of tool %q: %w", t.spec.Name, err)
	}
	return Result{Content: string(raw)}, nil
}

func (t funcTool[In, Out]) CheckArguments(arguments json.RawMessage) error {
	_, err := t.decode(arguments)
	return err
}

func (t funcTool[In, Out]) decode(arguments json.RawMessage) (in In, err error) {
	var loose map[string]any
	if err := json.Unmarshal(arguments, &loose); err != nil {
		return in, err
	}
	if err := t.schema.Validate(loose); err != nil {
		return in, err
	}
	dec := json.NewDecoder(bytes.NewReader(arguments))
	dec.DisallowUnknownFields()
	err = dec.Decode(&in)
	return in, err
}

// Fake makes a tool that always answers the same. It takes any arguments and is
// read-only.
func Fake(name, description, result string) Tool {
	return fake{spec: Spec{Name: name, Description: description, Nature: ReadOnly}, result: result}
}

type fake struct {
	spec   Spec
	result string
}

func (f fake) Spec() Spec { return f.spec }

func (f fake) Call(context.Context, Call) (Result, error) { return Result{Content: f.result}, nil }
