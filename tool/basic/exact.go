package basic

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

type calculatorArguments struct {
	Expression string `json:"expression" jsonschema:"such as (1/3 + 2) * 4 ^ 2"`
}

func calculate(_ context.Context, in calculatorArguments) (string, error) {
	var e exact
	value, err := Calculate(in.Expression, &e)
	if err != nil {
		return "", &session.InvalidError{Field: "expression", Reason: err.Error()}
	}
	return strings.TrimSpace(in.Expression) + " " + e.format(value), nil
}

// exact calculates with fractions of any length.
type exact struct {
	rounded bool // a root had to be rounded, or pi was used
}

// format returns "= 5" for an exact result, and "≈ 0.33333… (exactly 1/3)" for
// one that cannot be written down in digits.
func (e *exact) format(n *big.Rat) string {
	const digits = 30
	sign := "= "
	if e.rounded {
		sign = "≈ "
	}
	if places, finite := n.FloatPrec(); finite && places <= 60 {
		return sign + n.FloatString(places)
	}
	text := "≈ " + new(big.Float).SetPrec(200).SetRat(n).Text('g', digits)
	if n.Num().BitLen()+n.Denom().BitLen() > 200 || e.rounded {
		return text
	}
	return text + " (exactly " + n.RatString() + ")"
}

// maxBits bounds the numerator and the denominator of a number.
const maxBits = 1 << 14

var (
	errTooLarge = fmt.Errorf("comes to a number of more than %d bits", maxBits)
	errByZero   = errors.New("divides by zero")
)

// checkSize refuses a number that has become too large to go on with.
func checkSize(value *big.Rat) (*big.Rat, error) {
	if value.Num().BitLen() > maxBits || value.Denom().BitLen() > maxBits {
		return nil, errTooLarge
	}
	return value, nil
}

func (e *exact) Number(text string) (*big.Rat, error) {
	digits, exponent, scientific := strings.Cut(strings.ToLower(text), "e")
	if len(strings.TrimLeft(exponent, "+-0")) > 4 { // never worked out: 1e999999999 would fill the memory
		return nil, errTooLarge
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if scientific {
		digits += "e" + exponent
	}
	value, ok := new(big.Rat).SetString(strings.TrimSuffix(digits, "."))
	if !ok {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return checkSize(value)
}

func (e *exact) Negate(a *big.Rat) (*big.Rat, error) { return a.Neg(a), nil }

// Apply changes a and b; neither is used again.
func (e *exact) Apply(op string, a, b *big.Rat) (*big.Rat, error) {
	switch op {
	case "+":
		return checkSize(a.Add(a, b))
	case "-":
		return checkSize(a.Sub(a, b))
	case "*":
		return checkSize(a.Mul(a, b))
	case "**":
		return raise(a, b)
	}
	if b.Sign() == 0 {
		return nil, errByZero
	}
	quotient := new(big.Rat).Quo(a, b)
	switch op {
	case "//":
		return checkSize(floor(quotient))
	case "%": // the remainder of whole division; it has the sign of the divisor
		return checkSize(a.Sub(a, b.Mul(b, floor(quotient))))
	}
	return checkSize(quotient)
}

// raise returns base to a whole exponent.
func raise(base, exponent *big.Rat) (*big.Rat, error) {
	if !exponent.IsInt() {
		return nil, errors.New("has an exponent that is not whole; sqrt takes roots")
	}
	if base.Sign() == 0 && exponent.Sign() < 0 {
		return nil, errByZero
	}
	power := new(big.Int).Abs(exponent.Num())
	size := int64(max(base.Num().BitLen(), base.Denom().BitLen()))
	if size == 1 { // of 0, 1 and -1 it matters only whether the exponent is zero, odd or even
		power.SetInt64(int64(power.Sign()) * (2 - int64(power.Bit(0))))
	}
	if !power.IsInt64() || power.Int64() > 2*maxBits/size {
		return nil, errTooLarge
	}
	raised := new(big.Rat).SetFrac(
		new(big.Int).Exp(base.Num(), power, nil),
		new(big.Int).Exp(base.Denom(), power, nil),
	)
	if exponent.Sign() < 0 {
		raised.Inv(raised)
	}
	return checkSize(raised)
}

// Constant knows pi, to fifty digits.
func (e *exact) Constant(name string) (*big.Rat, bool) {
	if name != "pi" {
		return nil, false
	}
	e.rounded = true
	return new(big.Rat).SetString("3.14159265358979323846264338327950288419716939937510")
}

// Function knows abs, floor, ceil, round, sqrt, min and max.
func (e *exact) Function(name string) (func([]*big.Rat) (*big.Rat, error), bool) {
	most, known := map[string]int{"abs": 1, "floor": 1, "ceil": 1, "round": 2, "sqrt": 1, "min": maxExpression, "max": maxExpression}[name]
	return func(args []*big.Rat) (*big.Rat, error) {
		if len(args) > most {
			return nil, fmt.Errorf("gives %s %d arguments", name, len(args))
		}
		x := args[0]
		switch name {
		case "abs":
			return x.Abs(x), nil
		case "floor":
			return floor(x), nil
		case "ceil":
			return x.Neg(floor(x.Neg(x))), nil
		case "min":
			return slices.MinFunc(args, (*big.Rat).Cmp), nil
		case "max":
			return slices.MaxFunc(args, (*big.Rat).Cmp), nil
		case "round":
			return round(args)
		}
		return e.root(x)
	}, known
}

func floor(x *big.Rat) *big.Rat {
	// The denominator is positive, so Euclidean division rounds down.
	return new(big.Rat).SetInt(new(big.Int).Div(x.Num(), x.Denom()))
}

// round rounds to the nearest, halves away from zero, as people do it by hand.
func round(args []*big.Rat) (*big.Rat, error) {
	x, digits := args[0], int64(0)
	if len(args) == 2 {
		if !args[1].IsInt() || !args[1].Num().IsInt64() {
			return nil, errors.New("rounds to digits that are not a whole number")
		}
		if digits = args[1].Num().Int64(); digits < -1000 || digits > 1000 {
			return nil, errors.New("rounds to more than 1000 digits")
		}
	}
	scale, err := raise(big.NewRat(10, 1), big.NewRat(digits, 1))
	if err != nil {
		return nil, err
	}
	half := big.NewRat(1, 2)
	scaled := new(big.Rat).Abs(x)
	scaled = floor(scaled.Add(scaled.Mul(scaled, scale), half))
	if x.Sign() < 0 {
		scaled.Neg(scaled)
	}
	return scaled.Quo(scaled, scale), nil
}

// root returns the exact square root if there is one, else fifty digits of it.
func (e *exact) root(x *big.Rat) (*big.Rat, error) {
	if x.Sign() < 0 {
		return nil, errors.New("takes the root of a negative number")
	}
	num, den := new(big.Int).Sqrt(x.Num()), new(big.Int).Sqrt(x.Denom())
	whole := new(big.Rat).SetFrac(num, den)
	if new(big.Rat).Mul(whole, whole).Cmp(x) == 0 {
		return whole, nil
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(50), nil)
	scaled := new(big.Int).Mul(x.Num(), new(big.Int).Mul(scale, scale))
	scaled.Quo(scaled, x.Denom())
	e.rounded = true
	return new(big.Rat).SetFrac(scaled.Sqrt(scaled), scale), nil
}
