package basic

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// Bounds that keep a calculation short: of the expression in bytes, of how
// deep it is nested, and of a number in bits of numerator and denominator.
const (
	maxExpression = 1000
	maxDepth      = 100
	maxBits       = 1 << 14
)

type calculatorArguments struct {
	Expression string `json:"expression" jsonschema:"such as (1/3 + 2) * 4 ^ 2"`
}

func calculate(_ context.Context, in calculatorArguments) (string, error) {
	value, err := evaluate(in.Expression)
	if err != nil {
		return "", &session.InvalidError{Field: "expression", Reason: err.Error()}
	}
	return strings.TrimSpace(in.Expression) + " " + value.String(), nil
}

// number is a result: exact, unless a root had to be rounded.
type number struct {
	*big.Rat
	rounded bool
}

// String is "= 5" for a result that is exact, and "≈ 0.33333… (exactly 1/3)"
// for one that cannot be written down in digits.
func (n number) String() string {
	const digits = 30
	if n.IsInt() {
		return n.sign() + n.Num().String()
	}
	if places, exact := n.FloatPrec(); exact && places <= 60 {
		return n.sign() + n.FloatString(places)
	}
	text := "≈ " + new(big.Float).SetPrec(200).SetRat(n.Rat).Text('g', digits)
	if n.Num().BitLen()+n.Denom().BitLen() > 200 || n.rounded {
		return text
	}
	return text + " (exactly " + n.RatString() + ")"
}

func (n number) sign() string {
	if n.rounded {
		return "≈ "
	}
	return "= "
}

// evaluate reads an expression from left to right and calculates on the way.
func evaluate(expression string) (number, error) {
	if len(expression) > maxExpression {
		return number{}, fmt.Errorf("has %d bytes, at most %d", len(expression), maxExpression)
	}
	p := &parser{rest: expression}
	value, err := p.sum()
	if err == nil && p.peek() != end {
		err = p.unexpected()
	}
	return number{value, p.rounded}, err
}

// parser reads what is left of an expression. Binding grows from sum to
// product, sign, power and operand.
type parser struct {
	rest    string
	depth   int
	rounded bool
}

const end rune = -1

// peek is the next sign, or end.
func (p *parser) peek() rune {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" {
		return end
	}
	r, _ := utf8.DecodeRuneInString(p.rest)
	return r
}

// accept reads one of the signs if it comes next; a longer one is listed
// before its beginning.
func (p *parser) accept(signs ...string) (string, bool) {
	p.peek()
	for _, sign := range signs {
		if rest, ok := strings.CutPrefix(p.rest, sign); ok {
			p.rest = rest
			return sign, true
		}
	}
	return "", false
}

func (p *parser) unexpected() error {
	if r := p.peek(); r != end {
		return fmt.Errorf("did not expect %q", r)
	}
	return errors.New("ends too early")
}

func (p *parser) sum() (*big.Rat, error) {
	return p.chain(p.product, "+", "-", "−")
}

func (p *parser) product() (*big.Rat, error) {
	return p.chain(p.signed, "//", "*", "×", "/", "÷", "%")
}

// chain reads operands with signs of one binding between them.
func (p *parser) chain(operand func() (*big.Rat, error), signs ...string) (*big.Rat, error) {
	left, err := operand()
	for err == nil {
		sign, ok := p.accept(signs...)
		if !ok {
			break
		}
		var right *big.Rat
		if right, err = operand(); err == nil {
			left, err = apply(sign, left, right)
		}
	}
	return left, err
}

// signed is -2 ^ 2 as -(2 ^ 2).
func (p *parser) signed() (*big.Rat, error) {
	sign, ok := p.accept("+", "-", "−")
	if !ok {
		return p.power()
	}
	value, err := p.nested(p.signed)
	if err == nil && sign != "+" {
		value.Neg(value)
	}
	return value, err
}

// power reads from right to left: 2 ^ 3 ^ 2 is 2 ^ 9.
func (p *parser) power() (*big.Rat, error) {
	base, err := p.operand()
	if err != nil {
		return nil, err
	}
	if _, ok := p.accept("^", "**"); !ok {
		return base, nil
	}
	exponent, err := p.nested(p.signed)
	if err != nil {
		return nil, err
	}
	return raise(base, exponent)
}

func (p *parser) operand() (*big.Rat, error) {
	switch r := p.peek(); {
	case r == '(':
		p.rest = p.rest[1:]
		value, err := p.nested(p.sum)
		if err != nil {
			return nil, err
		}
		if _, ok := p.accept(")"); !ok {
			return nil, p.unexpected()
		}
		return value, nil
	case r >= '0' && r <= '9' || r == '.':
		return p.literal()
	case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
		return p.named()
	}
	return nil, p.unexpected()
}

// nested reads something inside something, but not without end.
func (p *parser) nested(read func() (*big.Rat, error)) (*big.Rat, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	return read()
}

// literal is a number as people write it: 12, 1.5, .5, 1e6, 1_000.
func (p *parser) literal() (*big.Rat, error) {
	n := 0
	for n < len(p.rest) {
		c := p.rest[n]
		exponent := (c == '+' || c == '-') && n > 0 && (p.rest[n-1] == 'e' || p.rest[n-1] == 'E')
		if (c < '0' || c > '9') && c != '.' && c != '_' && c != 'e' && c != 'E' && !exponent {
			break
		}
		n++
	}
	text := p.rest[:n]
	p.rest = p.rest[n:]
	digits, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(strings.TrimLeft(exponent, "+-0")) > 4 { // never worked out: 1e999999999 would fill the memory
		return nil, errTooLarge
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if strings.ContainsRune(text, 'e') || strings.ContainsRune(text, 'E') {
		digits += "e" + exponent
	}
	value, ok := new(big.Rat).SetString(strings.TrimSuffix(digits, "."))
	if !ok {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return fitting(value)
}
