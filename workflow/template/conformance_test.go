package template_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/template"
)

// conformance is what Jinja2 3.1 on Python 3.11, sandboxed and with strict
// undefined values, makes of many small templates. Where a case "differs" our
// answer is not Jinja's, on purpose, and the case says why.
type conformance struct {
	Scope          json.RawMessage `json:"scope"`
	ConditionScope json.RawMessage `json:"condition_scope"`
	Templates      []struct {
		Topic    string          `json:"topic"`
		Template string          `json:"template"`
		Scope    json.RawMessage `json:"scope"`
		Output   *string         `json:"output"`
		Error    template.Kind   `json:"error"`
		Differs  string          `json:"differs"`
	} `json:"templates"`
	Conditions []struct {
		Condition string        `json:"condition"`
		Holds     bool          `json:"holds"`
		Error     template.Kind `json:"error"`
		Differs   string        `json:"differs"`
	} `json:"conditions"`
}

func loadConformance(t *testing.T) conformance {
	t.Helper()
	data, err := os.ReadFile("testdata/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var c conformance
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Templates) < 500 || len(c.Conditions) < 100 {
		t.Fatalf("the table holds only %d templates and %d conditions", len(c.Templates), len(c.Conditions))
	}
	return c
}

func scopeOf(t *testing.T, data []byte) template.Scope {
	t.Helper()
	v, err := template.ParseJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	scope := template.Scope{}
	for k, v := range v.(*template.Dict).All() {
		scope[string(k.(template.Str))] = v
	}
	return scope
}

func TestRender_agreesWithJinja(t *testing.T) {
	t.Parallel()
	c := loadConformance(t)
	shared := scopeOf(t, c.Scope)
	for _, tc := range c.Templates {
		scope := shared
		if tc.Scope != nil {
			scope = scopeOf(t, tc.Scope)
		}
		got, err := render(tc.Template, scope)
		switch {
		case kindOf(err) != tc.Error:
			t.Errorf("%s: %q %s: error %v, want kind %q (%s)", tc.Topic, tc.Template, tc.Scope, err, tc.Error, want(tc.Output))
		case tc.Output != nil && got != *tc.Output:
			t.Errorf("%s: %q %s:\n got %q\nwant %q", tc.Topic, tc.Template, tc.Scope, got, *tc.Output)
		}
	}
}

func TestEval_agreesWithJinja(t *testing.T) {
	t.Parallel()
	c := loadConformance(t)
	scope := scopeOf(t, c.ConditionScope)
	for _, tc := range c.Conditions {
		holds := false
		condition, err := template.CompileCondition(tc.Condition)
		if err == nil {
			holds, err = condition.Eval(scope)
		}
		if kindOf(err) != tc.Error || holds != tc.Holds {
			t.Errorf("%q: holds %t, error %v; want %t, kind %q", tc.Condition, holds, err, tc.Holds, tc.Error)
		}
	}
}

func render(text string, scope template.Scope) (string, error) {
	tmpl, err := template.Compile("test", text)
	if err != nil {
		return "", err
	}
	return tmpl.Render(scope)
}

func kindOf(err error) template.Kind {
	var e *template.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	if err != nil {
		return "not an *Error"
	}
	return ""
}

func want(output *string) string {
	if output == nil {
		return "no output"
	}
	return *output
}
