package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// Bounds of an expression: its bytes, and how deep it is nested. Numbers are
// bounded by who calculates with them.
const (
	maxExpression = 1000
	maxNested     = 40
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
	value, err := evaluate(expression)
	if err != nil {
		return "", &session.InvalidError{Field: "expression", Reason: err.Error()}
	}
	return expression + " = " + value, nil
}

// evaluate calculates as Python does. Templates have its numbers already, but
// bind powers in their own way, so the expression is read here and handed over
// with those in parentheses.
func evaluate(expression string) (string, error) {
	if len(expression) > maxExpression {
		return "", fmt.Errorf("has %d bytes, at most %d", len(expression), maxExpression)
	}
	r := &rewriter{rest: expression}
	text, err := r.sum()
	if err == nil && r.peek() != end {
		err = r.unexpected()
	}
	if err != nil {
		return "", err
	}
	t, err := template.Compile("expression", "{{ "+text+" }}")
	if err != nil {
		return "", reason(err)
	}
	value, err := t.Render(nil)
	if err != nil {
		return "", reason(err)
	}
	return integral(value)
}

// reason is an error without a place, which is not one of the expression.
func reason(err error) error {
	var e *template.Error
	if errors.As(err, &e) {
		return errors.New(e.Reason)
	}
	return err
}

// integral is a value without a fraction that is zero.
func integral(value string) (string, error) {
	if _, ok := new(big.Int).SetString(value, 10); ok {
		return value, nil
	}
	f, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f):
		return "", errors.New("comes to a number that is too large")
	case f != math.Trunc(f):
		return value, nil
	}
	whole, _ := big.NewFloat(f).Int(nil)
	return whole.String(), nil
}

// rewriter reads an expression and writes it anew. Binding grows from sum to
// product, sign, power and operand.
type rewriter struct {
	rest  string
	depth int
}

const end rune = -1

// peek is the next sign, or end.
func (r *rewriter) peek() rune {
	r.rest = strings.TrimLeft(r.rest, " \t\r\n")
	if r.rest == "" {
		return end
	}
	next, _ := utf8.DecodeRuneInString(r.rest)
	return next
}

// accept reads one of the signs if it comes next; a longer one is listed
// before its beginning.
func (r *rewriter) accept(signs ...string) (string, bool) {
	r.peek()
	for _, sign := range signs {
		if rest, ok := strings.CutPrefix(r.rest, sign); ok {
			r.rest = rest
			return sign, true
		}
	}
	return "", false
}

func (r *rewriter) unexpected() error {
	if next := r.peek(); next != end {
		return fmt.Errorf("did not expect %q", next)
	}
	return errors.New("ends too early")
}

func (r *rewriter) sum() (string, error) { return r.chain(r.product, "+", "-") }

func (r *rewriter) product() (string, error) { return r.chain(r.signed, "//", "*", "/", "%") }

// chain reads operands with signs of one binding between them.
func (r *rewriter) chain(operand func() (string, error), signs ...string) (string, error) {
	text, err := operand()
	for err == nil {
		sign, ok := r.accept(signs...)
		if !ok {
			break
		}
		var next string
		next, err = operand()
		text += " " + sign + " " + next
	}
	return text, err
}

// signed is -2 ** 2 as -(2 ** 2).
func (r *rewriter) signed() (string, error) {
	sign, ok := r.accept("+", "-")
	if !ok {
		return r.power()
	}
	value, err := r.nested(r.signed)
	return sign + value, err
}

// power reads from right to left: 2 ** 3 ** 2 is 2 ** 9.
func (r *rewriter) power() (string, error) {
	base, err := r.operand()
	if err != nil {
		return "", err
	}
	if _, ok := r.accept("**"); !ok {
		return base, nil
	}
	exponent, err := r.nested(r.signed)
	return "(" + base + " ** " + exponent + ")", err
}

func (r *rewriter) operand() (string, error) {
	switch next := r.peek(); {
	case next == '(':
		r.rest = r.rest[1:]
		value, err := r.nested(r.sum)
		if err != nil {
			return "", err
		}
		if _, ok := r.accept(")"); !ok {
			return "", r.unexpected()
		}
		return "(" + value + ")", nil
	case next >= '0' && next <= '9' || next == '.':
		return r.literal()
	}
	return "", r.unexpected()
}

// nested reads something inside something, but not without end.
func (r *rewriter) nested(read func() (string, error)) (string, error) {
	if r.depth++; r.depth > maxNested {
		return "", fmt.Errorf("is nested more than %d deep", maxNested)
	}
	defer func() { r.depth-- }()
	return read()
}

// literal is a whole number or one with a fraction: 12, 1_000, 1.5, .5, 1e6.
func (r *rewriter) literal() (string, error) {
	n := 0
	for n < len(r.rest) {
		c := r.rest[n]
		exponent := (c == '+' || c == '-') && n > 0 && (r.rest[n-1] == 'e' || r.rest[n-1] == 'E')
		if (c < '0' || c > '9') && c != '.' && c != '_' && c != 'e' && c != 'E' && !exponent {
			break
		}
		n++
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	bare := strings.ReplaceAll(text, "_", "")
	if whole, ok := new(big.Int).SetString(bare, 10); ok {
		return whole.String(), nil
	}
	f, err := strconv.ParseFloat(bare, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "", fmt.Errorf("%q is too large", text)
	case err != nil:
		return "", fmt.Errorf("%q is not a number", text)
	}
	digits := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsRune(digits, '.') {
		digits += ".0"
	}
	return digits, nil
}
