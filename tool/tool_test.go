package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type place struct {
	City  string `json:"city" jsonschema:"the city to look at"`
	Hours int    `json:"hours,omitempty"`
}

func weather(t *testing.T) tool.Tool {
	t.Helper()
	w, err := tool.Func(tool.Spec{Name: "weather", Description: "Looks out of the window.", Nature: tool.ReadOnly},
		func(_ context.Context, in place) (string, error) {
			if in.City == "Atlantis" {
				return "", errors.New("it is under water")
			}
			return "rain in " + in.City, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFunc_schemaComesFromTheStruct(t *testing.T) {
	var schema struct {
		Type       string                    `json:"type"`
		Required   []string                  `json:"required"`
		Properties map[string]map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(weather(t).Spec().Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Type != "object" || !slices.Equal(schema.Required, []string{"city"}) || schema.Properties["city"]["description"] != "the city to look at" || schema.Properties["hours"]["type"] != "integer" {
		t.Errorf("schema %+v", schema)
	}
}

func TestFunc_calls(t *testing.T) {
	w := weather(t)
	got, err := w.Call(t.Context(), tool.Call{Arguments: []byte(`{"city":"Oslo"}`)})
	if err != nil || got.Content != "rain in Oslo" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := w.Call(t.Context(), tool.Call{Arguments: []byte(`{"city":"Atlantis"}`)}); err == nil || !strings.Contains(err.Error(), "under water") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{`{}`, `{"city":1}`, `{"city":"x","planet":"y"}`, `[]`, `{"city":`, ``, `{"city":"x","hours":1.5}`} {
		if _, err := w.Call(t.Context(), tool.Call{Arguments: []byte(bad)}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("arguments %s: %v", bad, err)
		}
	}
}

func TestFunc_resultsThatAreNoTextBecomeJSON(t *testing.T) {
	sum, err := tool.Func(tool.Spec{Name: "sum"}, func(_ context.Context, in struct {
		A int `json:"a"`
	}) (map[string]int, error) {
		return map[string]int{"twice": in.A * 2}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sum.Call(t.Context(), tool.Call{Arguments: []byte(`{"a":4}`)}); err != nil || got.Content != `{"twice":8}` {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := tool.Func(tool.Spec{Name: "bad"}, func(context.Context, int) (string, error) { return "", nil }); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("arguments that are no struct: %v", err)
	}
}

func TestSet_namesAreChecked(t *testing.T) {
	a, b := tool.Fake("a", "", "1"), tool.Fake("b", "", "2")
	set, err := tool.NewSet(a, b)
	if err != nil || !slices.Equal(set.Names(), []string{"a", "b"}) {
		t.Fatalf("names %v, %v", set.Names(), err)
	}
	if _, err := tool.NewSet(a, a); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("twice: %v", err)
	}
	for _, name := range []string{"", "a b", "é", strings.Repeat("x", 65)} {
		if _, err := tool.NewSet(tool.Fake(name, "", "")); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for want, kept := range map[string]tool.Set{
		"a,b": set.Select(nil, nil), "": set.Select([]string{}, nil), "b": set.Select(nil, []string{"a"}), "a": set.Select([]string{"a", "zzz"}, nil),
	} {
		if got := strings.Join(kept.Names(), ","); got != want {
			t.Errorf("selected %q, want %q", got, want)
		}
	}
	if got, err := set.All()[1].Call(t.Context(), tool.Call{}); err != nil || got.Content != "2" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestFunc_rawArgumentsTakeAnyValue(t *testing.T) {
	type in struct {
		Value json.RawMessage `json:"value"`
	}
	echo, err := tool.Func(tool.Spec{Name: "echo"}, func(_ context.Context, a in) (string, error) { return string(a.Value), nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{`1.50`, `"x"`, `null`, `{"a":[1]}`, `[true]`} {
		got, err := echo.Call(t.Context(), tool.Call{ID: "1", Arguments: json.RawMessage(`{"value":` + value + `}`)})
		if err != nil || got.Content != value {
			t.Errorf("%s came as %q, %v", value, got.Content, err)
		}
	}
}
