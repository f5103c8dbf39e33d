package basic

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of an expression: its length in bytes, and how deep it is nested.
const (
	maxExpression = 1000
	maxDepth      = 100
)

// Arithmetic is a kind of number and how to calculate with it. It bounds the
// size of its numbers itself.
type Arithmetic[N any] interface {
	// Number reads digits with an optional fraction and exponent: 12, 1.5, .5,
	// 1e6, 1_000. The text may also be malformed, such as 1.2.3.
	Number(text string) (N, error)
	// Apply calculates a op b; op is one of + - * / // % **.
	Apply(op string, a, b N) (N, error)
	Negate(a N) (N, error)
}

// Functions is an Arithmetic that also has names. Expressions for it may use
// ^ for **, and the signs × ÷ and −.
type Functions[N any] interface {
	Constant(name string) (N, bool)
	Function(name string) (call func(args []N) (N, error), ok bool)
}

// Calculate reads an expression from left to right and calculates on the way.
// Powers bind before signs and from right to left: -2 ** 2 is -4, and
// 2 ** 3 ** 2 is 2 ** 9.
func Calculate[N any](expression string, with Arithmetic[N]) (N, error) {
	var none N
	if len(expression) > maxExpression {
		return none, fmt.Errorf("has %d bytes, at most %d", len(expression), maxExpression)
	}
	p := &parser[N]{rest: expression, Arithmetic: with}
	p.functions, _ = with.(Functions[N])
	value, err := p.sum()
	if err == nil && p.peek() != end {
		err = p.unexpected()
	}
	if err != nil {
		return none, err
	}
	return value, nil
}

// parser reads the rest of an expression. Binding grows from sum to product,
// sign, power and operand.
type parser[N any] struct {
	Arithmetic[N]
	functions Functions[N] // nil: there are none
	rest      string
	depth     int
}

const end rune = -1

// operators maps what may be written to what Apply takes. The second list is
// for expressions with functions.
var operators, moreOperators = map[string]string{
	"+": "+", "-": "-", "*": "*", "/": "/", "//": "//", "%": "%", "**": "**",
}, map[string]string{"^": "**", "×": "*", "÷": "/", "−": "-"}

// peek returns the next sign, or end.
func (p *parser[N]) peek() rune {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" {
		return end
	}
	r, _ := utf8.DecodeRuneInString(p.rest)
	return r
}

// accept reads one of the signs if it comes next; a longer one is listed
// before its beginning. It returns the operator that the sign stands for.
func (p *parser[N]) accept(signs ...string) (op string, ok bool) {
	p.peek()
	for _, sign := range signs {
		op, known := operators[sign]
		if !known && p.functions != nil {
			op, known = moreOperators[sign]
		}
		if rest, found := strings.CutPrefix(p.rest, sign); found && known {
			p.rest = rest
			return op, true
		}
	}
	return "", false
}

func (p *parser[N]) unexpected() error {
	if r := p.peek(); r != end {
		return fmt.Errorf("did not expect %q", r)
	}
	return errors.New("ends too early")
}

func (p *parser[N]) sum() (N, error) { return p.chain(p.product, "+", "-", "−") }

func (p *parser[N]) product() (N, error) { return p.chain(p.signed, "//", "*", "×", "/", "÷", "%") }

// chain reads operands with operators of one binding between them.
func (p *parser[N]) chain(operand func() (N, error), signs ...string) (N, error) {
	left, err := operand()
	for err == nil {
		op, ok := p.accept(signs...)
		if !ok {
			break
		}
		var right N
		if right, err = operand(); err == nil {
			left, err = p.Apply(op, left, right)
		}
	}
	return left, err
}

func (p *parser[N]) signed() (N, error) {
	op, ok := p.accept("+", "-", "−")
	if !ok {
		return p.power()
	}
	value, err := p.nested(p.signed)
	if err != nil || op == "+" {
		return value, err
	}
	return p.Negate(value)
}

func (p *parser[N]) power() (N, error) {
	base, err := p.operand()
	if err != nil {
		return base, err
	}
	if _, ok := p.accept("^", "**"); !ok {
		return base, nil
	}
	exponent, err := p.nested(p.signed)
	if err != nil {
		return base, err
	}
	return p.Apply("**", base, exponent)
}

func (p *parser[N]) operand() (value N, err error) {
	switch r := p.peek(); {
	case r == '(':
		p.rest = p.rest[1:]
		if value, err = p.nested(p.sum); err != nil {
			return value, err
		}
		if p.peek() != ')' {
			return value, p.unexpected()
		}
		p.rest = p.rest[1:]
		return value, nil
	case r >= '0' && r <= '9' || r == '.':
		return p.Number(p.literal())
	case p.functions != nil && letter(r):
		return p.named()
	}
	return value, p.unexpected()
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// nested reads a part inside another one, and bounds the depth.
func (p *parser[N]) nested(read func() (N, error)) (N, error) {
	if p.depth++; p.depth > maxDepth {
		var none N
		return none, fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	return read()
}

// literal reads everything that may be part of a number.
func (p *parser[N]) literal() string {
	n := 0
	for n < len(p.rest) {
		c := p.rest[n]
		exponent := (c == '+' || c == '-') && (p.rest[n-1] == 'e' || p.rest[n-1] == 'E')
		if (c < '0' || c > '9') && c != '.' && c != '_' && c != 'e' && c != 'E' && !exponent {
			break
		}
		n++
	}
	text := p.rest[:n]
	p.rest = p.rest[n:]
	return text
}

// named reads a constant, or a function and its arguments.
func (p *parser[N]) named() (N, error) {
	n := strings.IndexFunc(p.rest, func(r rune) bool { return !letter(r) })
	if n < 0 {
		n = len(p.rest)
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	if value, ok := p.functions.Constant(name); ok {
		return value, nil
	}
	var none N
	call, ok := p.functions.Function(name)
	if !ok {
		return none, fmt.Errorf("does not know %q", name)
	}
	args, err := p.arguments()
	if err != nil {
		return none, err
	}
	return call(args)
}

// arguments reads what is in parentheses, with commas in between.
func (p *parser[N]) arguments() ([]N, error) {
	if p.peek() != '(' {
		return nil, p.unexpected()
	}
	var args []N
	for next := '('; next != ')'; next = rune(p.rest[0]) {
		p.rest = p.rest[1:]
		value, err := p.nested(p.sum)
		if err != nil {
			return nil, err
		}
		args = append(args, value)
		if r := p.peek(); r != ',' && r != ')' {
			return nil, p.unexpected()
		}
	}
	p.rest = p.rest[1:]
	return args, nil
}
