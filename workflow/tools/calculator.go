package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/basic"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

type calculatorArguments struct {
	Expression string `json:"expression" jsonschema:"such as (1 + 2) * 3 ** 2"`
}

func (b *Box) calculatorTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "calculator", Nature: tool.ReadOnly,
		Description: "Calculate: + - * / // (whole division) % (remainder) ** (power) and parentheses. Whole numbers are exact.",
	}, calculate)
}

func calculate(_ context.Context, in calculatorArguments) (string, error) {
	expression := strings.TrimSpace(in.Expression)
	value, err := basic.Calculate(expression, pythonNumbers{})
	text := ""
	if err == nil {
		text, err = printNumber(value)
	}
	if err != nil {
		return "", &session.InvalidError{Field: "expression", Reason: err.Error()}
	}
	return expression + " = " + text, nil
}

// pythonNumbers calculates as Python does, with the numbers of templates.
type pythonNumbers struct{}

func (pythonNumbers) Number(text string) (template.Value, error) {
	digits := strings.ReplaceAll(text, "_", "")
	if whole, ok := new(big.Int).SetString(digits, 10); ok {
		return template.From(whole)
	}
	f, err := strconv.ParseFloat(digits, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, fmt.Errorf("%q is too large", text)
	case err != nil:
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return template.Float(f), nil
}

func (pythonNumbers) Apply(op string, a, b template.Value) (template.Value, error) {
	return template.Calculate(op, a, b)
}

func (pythonNumbers) Negate(a template.Value) (template.Value, error) {
	return template.Calculate("-", template.Int(0), a)
}

// printNumber prints as Python does, but a fraction of zero is left out.
func printNumber(value template.Value) (string, error) {
	if f, ok := value.(template.Float); ok {
		switch f := float64(f); {
		case math.IsInf(f, 0) || math.IsNaN(f):
			return "", errors.New("comes to a number that is too large")
		case f == math.Trunc(f):
			whole, _ := big.NewFloat(f).Int(nil)
			return whole.String(), nil
		}
	}
	return template.Print(value)
}
