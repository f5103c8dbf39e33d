package basic

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
)

var (
	errTooLarge = fmt.Errorf("comes to a number of more than %d bits", maxBits)
	errByZero   = errors.New("divides by zero")
)

// fitting refuses a number that has become too large to go on with.
func fitting(value *big.Rat) (*big.Rat, error) {
	if value.Num().BitLen() > maxBits || value.Denom().BitLen() > maxBits {
		return nil, errTooLarge
	}
	return value, nil
}

// apply calculates with two numbers. Neither is used again.
func apply(sign string, a, b *big.Rat) (*big.Rat, error) {
	switch sign {
	case "+":
		return fitting(a.Add(a, b))
	case "-", "−":
		return fitting(a.Sub(a, b))
	case "*", "×":
		return fitting(a.Mul(a, b))
	}
	if b.Sign() == 0 {
		return nil, errByZero
	}
	quotient := new(big.Rat).Quo(a, b)
	switch sign {
	case "//":
		return fitting(floor(quotient))
	case "%": // what whole division leaves; it has the sign of the divisor
		return fitting(a.Sub(a, b.Mul(b, floor(quotient))))
	}
	return fitting(quotient)
}

// raise is base to a whole exponent.
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
	return fitting(raised)
}

// function is something with a name, and how many arguments it takes.
type function struct {
	least, most int
	call        func(args []*big.Rat) (value *big.Rat, rounded bool, err error)
}

// functionOf finds a function by name.
func functionOf(name string) (function, bool) {
	simple := func(f func(*big.Rat) *big.Rat) function {
		return function{1, 1, func(args []*big.Rat) (*big.Rat, bool, error) { return f(args[0]), false, nil }}
	}
	choose := func(better func(a, b *big.Rat) int) function {
		return function{1, maxExpression, func(args []*big.Rat) (*big.Rat, bool, error) { return slices.MinFunc(args, better), false, nil }}
	}
	switch name {
	case "abs":
		return simple(func(x *big.Rat) *big.Rat { return x.Abs(x) }), true
	case "floor":
		return simple(floor), true
	case "ceil":
		return simple(func(x *big.Rat) *big.Rat { return x.Neg(floor(x.Neg(x))) }), true
	case "min":
		return choose((*big.Rat).Cmp), true
	case "max":
		return choose(func(a, b *big.Rat) int { return b.Cmp(a) }), true
	case "round":
		return function{1, 2, round}, true
	case "sqrt":
		return function{1, 1, root}, true
	}
	return function{}, false
}

// named reads a constant, or a function and its arguments.
func (p *parser) named() (*big.Rat, error) {
	n := 0
	for n < len(p.rest) && (p.rest[n] >= 'a' && p.rest[n] <= 'z' || p.rest[n] >= 'A' && p.rest[n] <= 'Z') {
		n++
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	if name == "pi" {
		p.rounded = true
		value, _ := new(big.Rat).SetString("3.14159265358979323846264338327950288419716939937510")
		return value, nil
	}
	f, ok := functionOf(name)
	if !ok {
		return nil, fmt.Errorf("does not know %q", name)
	}
	args, err := p.arguments()
	if err != nil {
		return nil, err
	}
	if len(args) < f.least || len(args) > f.most {
		return nil, fmt.Errorf("gives %s %d arguments", name, len(args))
	}
	value, rounded, err := f.call(args)
	p.rounded = p.rounded || rounded
	return value, err
}

// arguments are in parentheses, with commas between them.
func (p *parser) arguments() ([]*big.Rat, error) {
	if _, ok := p.accept("("); !ok {
		return nil, p.unexpected()
	}
	var args []*big.Rat
	for {
		value, err := p.nested(p.sum)
		if err != nil {
			return nil, err
		}
		args = append(args, value)
		sign, ok := p.accept(",", ")")
		switch {
		case !ok:
			return nil, p.unexpected()
		case sign == ")":
			return args, nil
		}
	}
}

func floor(x *big.Rat) *big.Rat {
	// The denominator is positive, so that Euclidean division rounds down.
	return new(big.Rat).SetInt(new(big.Int).Div(x.Num(), x.Denom()))
}

// round is to the nearest, halves away from zero, as people do it by hand.
func round(args []*big.Rat) (*big.Rat, bool, error) {
	x, digits := args[0], int64(0)
	if len(args) == 2 {
		if !args[1].IsInt() || !args[1].Num().IsInt64() {
			return nil, false, errors.New("rounds to digits that are not a whole number")
		}
		if digits = args[1].Num().Int64(); digits < -1000 || digits > 1000 {
			return nil, false, errors.New("rounds to more than 1000 digits")
		}
	}
	scale, err := raise(big.NewRat(10, 1), big.NewRat(digits, 1))
	if err != nil {
		return nil, false, err
	}
	half := big.NewRat(1, 2)
	scaled := new(big.Rat).Abs(x)
	scaled = floor(scaled.Add(scaled.Mul(scaled, scale), half))
	if x.Sign() < 0 {
		scaled.Neg(scaled)
	}
	return scaled.Quo(scaled, scale), false, nil
}

// root is the square root, exact where there is one that is, and else to fifty
// digits.
func root(args []*big.Rat) (*big.Rat, bool, error) {
	x := args[0]
	if x.Sign() < 0 {
		return nil, false, errors.New("takes the root of a negative number")
	}
	num, den := new(big.Int).Sqrt(x.Num()), new(big.Int).Sqrt(x.Denom())
	exact := new(big.Rat).SetFrac(num, den)
	if new(big.Rat).Mul(exact, exact).Cmp(x) == 0 {
		return exact, false, nil
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(50), nil)
	scaled := new(big.Int).Mul(x.Num(), new(big.Int).Mul(scale, scale))
	scaled.Quo(scaled, x.Denom())
	return new(big.Rat).SetFrac(scaled.Sqrt(scaled), scale), true, nil
}
