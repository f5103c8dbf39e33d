package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// parseVariables reads NAME=VALUE arguments; white space around both sides is not
// part of them.
func parseVariables(args []string) (spec.Map[string], error) {
	var vars spec.Map[string]
	for _, arg := range args {
		name, value, found := strings.Cut(arg, "=")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, &session.InvalidError{Field: "var", Reason: fmt.Sprintf("%q is not NAME=VALUE", arg)}
		}
		vars = vars.With(name, strings.TrimSpace(value))
	}
	return vars, nil
}

// inputsError is a spec that lacks values.
type inputsError struct{ err error }

func (e *inputsError) Error() string {
	return e.err.Error() + "; give each with --var NAME=VALUE, or --ask"
}

func (e *inputsError) Unwrap() error { return e.err }

// askInputs asks a person for the inputs that have no value. One that does not
// fit its declaration is asked for again.
func (p *program) askInputs(ctx context.Context, s *spec.Spec, missing []string, vars spec.Map[string]) (spec.Map[string], error) {
	if !p.In.Terminal {
		return nil, &session.InvalidError{Field: "ask", Reason: "there is no terminal to ask at; give " + strings.Join(missing, ", ") + " with --var NAME=VALUE"}
	}
	for _, name := range missing {
		declared, _ := s.Inputs.Required.Get(name)
		if declared.Description != "" {
			p.Err.Status("%s", declared.Description)
		}
		for {
			fmt.Fprintf(p.Err, "%s %s: ", p.Err.Paint(terminal.Bold, terminal.OneLine(name)), p.Err.Paint(terminal.Dim, "("+describeInput(declared)+")"))
			text, err := terminal.WaitFor(ctx, p.In.ReadLine)
			if ctx.Err() != nil || terminal.IsEOF(err) {
				fmt.Fprintln(p.Err)
				return nil, terminal.ErrDeclined
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			value, err := inputValue(declared, text)
			if err == nil {
				vars = vars.With(name, value)
				break
			}
			p.Err.Warn("%v", err)
		}
	}
	return vars, nil
}

// describeInput says what an input is, in a few words.
func describeInput(v spec.Var) string {
	if len(v.Enum) == 0 {
		return v.Type
	}
	words := make([]string, len(v.Enum))
	for i, one := range v.Enum {
		words[i] = fmt.Sprint(one)
	}
	return "one of " + strings.Join(words, ", ")
}

// inputValue returns what a person typed as runs keep it: the text of the value in
// Python. What does not fit the declaration is an error that says how.
func inputValue(v spec.Var, text string) (string, error) {
	value, err := parseAs(v.Type, strings.TrimSpace(text))
	if err != nil || len(v.Enum) == 0 {
		return value, err
	}
	for _, one := range v.Enum {
		if known, err := parseAs(v.Type, fmt.Sprint(one)); err == nil && known == value {
			return value, nil
		}
	}
	return "", fmt.Errorf("%q is not %s", text, describeInput(v))
}

// parseAs reads a value of some type.
func parseAs(want, text string) (string, error) {
	switch want {
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "yes", "y", "1":
			return "True", nil
		case "false", "no", "n", "0":
			return "False", nil
		}
		return "", fmt.Errorf("%q is not yes or no", text)
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%q is not a whole number", text)
		}
		return strconv.FormatInt(n, 10), nil
	case "number":
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return "", fmt.Errorf("%q is not a number", text)
		}
		return pythonFloat(f), nil
	case "array", "object":
		open := map[string]string{"array": "[", "object": "{"}[want]
		if !strings.HasPrefix(text, open) || !json.Valid([]byte(text)) {
			return "", fmt.Errorf("%q is not an %s in JSON", text, want)
		}
		return text, nil
	}
	if text == "" {
		return "", fmt.Errorf("it is empty")
	}
	return text, nil
}

// pythonFloat returns the text of a float in Python: 3.0, 0.5, 1e+20.
func pythonFloat(f float64) string {
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		format = 'e'
	}
	text := strconv.FormatFloat(f, format, -1, 64)
	if format == 'f' && !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
