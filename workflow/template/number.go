package template

import (
	"errors"
	"math"
	"math/big"
	"strconv"
)

func tooLarge() error { return failf(KindLimit, "an integer of more than 4300 digits") }

// wholeNumber returns n as a value.
func wholeNumber(n *big.Int) (Value, error) {
	if n.IsInt64() {
		return Int(n.Int64()), nil
	}
	if n.BitLen() > maxIntBits {
		return nil, tooLarge()
	}
	return bigInt{n}, nil
}

// parseFloat reads a decimal number; one too large is infinite.
func parseFloat(text string) (Value, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, valueErrorf("%q is not a number", text)
	}
	return Float(f), nil
}

// number returns v as Int, bigInt or Float, if it counts as a number at all.
func number(v Value) (Value, bool) {
	switch v := v.(type) {
	case Bool:
		if v {
			return Int(1), true
		}
		return Int(0), true
	case Int, bigInt, Float:
		return v, true
	}
	return nil, false
}

// whole returns v as a big integer, if it is a whole number and not a float.
func whole(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case Bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case Int:
		return big.NewInt(int64(v)), true
	case bigInt:
		return v.n, true
	}
	return nil, false
}

// smallInt returns v as an int, if it is a whole number of that size.
func smallInt(v Value) (int, bool) {
	n, ok := whole(v)
	if !ok || !n.IsInt64() {
		return 0, false
	}
	return int(n.Int64()), true
}

// clampInt returns v as an int far from overflow: counts and bounds beyond
// any length mean the same however large they are.
func clampInt(v Value) (int, bool) {
	const far = 1 << 40
	n, ok := whole(v)
	switch {
	case !ok:
		return 0, false
	case !n.IsInt64():
		return n.Sign() * far, true
	}
	return int(min(max(n.Int64(), -far), far)), true
}

// toFloat converts a number as Python's float() does.
func toFloat(v Value) (float64, error) {
	switch v := v.(type) {
	case Int:
		return float64(v), nil
	case Float:
		return float64(v), nil
	case bigInt:
		f, _ := new(big.Float).SetInt(v.n).Float64()
		if math.IsInf(f, 0) {
			return 0, valueErrorf("the integer is too large for a float")
		}
		return f, nil
	}
	return 0, valueErrorf("'%s' is not a number", v.typeName())
}

func sign(v Value, negative bool) (Value, error) {
	if err := present(v); err != nil {
		return nil, err
	}
	n, ok := number(v)
	if !ok {
		return nil, valueErrorf("'%s' has no sign", v.typeName())
	}
	if !negative {
		return n, nil
	}
	if f, ok := n.(Float); ok {
		return -f, nil
	}
	w, _ := whole(n)
	return wholeNumber(new(big.Int).Neg(w))
}

// Calculate returns left op right for two numbers, as Python does; op is one of
// + - * / // % **.
func Calculate(op string, left, right Value) (Value, error) {
	a, ok := number(left)
	b, ok2 := number(right)
	if !ok || !ok2 {
		return nil, valueErrorf("cannot compute %s %s %s", left.typeName(), op, right.typeName())
	}
	return arithmetic(op, a, b)
}

// arithmetic computes an operation on two numbers.
func arithmetic(op string, a, b Value) (Value, error) {
	x, isInt := a.(Int)
	y, isInt2 := b.(Int)
	if isInt && isInt2 && small(x) && small(y) {
		switch op {
		case "+":
			return x + y, nil
		case "-":
			return x - y, nil
		case "*":
			return x * y, nil
		}
	}
	n, ok := whole(a)
	m, ok2 := whole(b)
	if ok && ok2 {
		return wholeArithmetic(op, n, m)
	}
	f, err := toFloat(a)
	if err != nil {
		return nil, err
	}
	g, err := toFloat(b)
	if err != nil {
		return nil, err
	}
	return floatArithmetic(op, f, g)
}

// small reports whether products and sums of such numbers fit an Int.
func small(n Int) bool { return math.MinInt32 <= n && n <= math.MaxInt32 }

func wholeArithmetic(op string, a, b *big.Int) (Value, error) {
	switch op {
	case "+":
		return wholeNumber(new(big.Int).Add(a, b))
	case "-":
		return wholeNumber(new(big.Int).Sub(a, b))
	case "*":
		if a.BitLen()+b.BitLen() > maxIntBits+1 {
			return nil, tooLarge()
		}
		return wholeNumber(new(big.Int).Mul(a, b))
	case "**":
		return wholePower(a, b)
	}
	if b.Sign() == 0 {
		return nil, valueErrorf("division by zero")
	}
	switch op {
	case "/":
		f, _ := new(big.Rat).SetFrac(a, b).Float64()
		if math.IsInf(f, 0) {
			return nil, valueErrorf("the quotient is too large for a float")
		}
		if a.Sign() == 0 && b.Sign() < 0 {
			f = math.Copysign(0, -1)
		}
		return Float(f), nil
	case "//":
		q, _ := floorDivide(a, b)
		return wholeNumber(q)
	default: // %
		_, m := floorDivide(a, b)
		return wholeNumber(m)
	}
}

// floorDivide rounds the quotient down; the rest has the divisor's sign.
func floorDivide(a, b *big.Int) (quotient, rest *big.Int) {
	quotient, rest = new(big.Int).QuoRem(a, b, new(big.Int))
	if rest.Sign() != 0 && rest.Sign() != b.Sign() {
		quotient.Sub(quotient, big.NewInt(1))
		rest.Add(rest, b)
	}
	return quotient, rest
}

func wholePower(a, b *big.Int) (Value, error) {
	if b.Sign() < 0 {
		if a.Sign() == 0 {
			return nil, valueErrorf("zero cannot be raised to a negative power")
		}
		f, err := toFloat(bigInt{a})
		if err != nil {
			return nil, err
		}
		g, err := toFloat(bigInt{b})
		if err != nil {
			return nil, err
		}
		return floatArithmetic("**", f, g)
	}
	if a.BitLen() > 1 && (!b.IsInt64() || b.Int64() > maxIntBits || int64(a.BitLen()-1)*b.Int64() > maxIntBits) {
		return nil, tooLarge()
	}
	if a.BitLen() <= 1 { // -1, 0 and 1: only whether the exponent is odd or zero counts
		b = new(big.Int).SetUint64(uint64(b.Bit(0)) + 2*uint64(min(b.BitLen()/2, 1)))
	}
	return wholeNumber(new(big.Int).Exp(a, b, nil))
}

func floatArithmetic(op string, a, b float64) (Value, error) {
	switch op {
	case "+":
		return Float(a + b), nil
	case "-":
		return Float(a - b), nil
	case "*":
		return Float(a * b), nil
	case "**":
		return floatPower(a, b)
	}
	if b == 0 {
		return nil, valueErrorf("division by zero")
	}
	if op == "/" {
		return Float(a / b), nil
	}
	// The remainder has the divisor's sign, and the quotient goes with it.
	rest := math.Mod(a, b)
	quotient := (a - rest) / b
	if rest != 0 {
		if (b < 0) != (rest < 0) {
			rest += b
			quotient--
		}
	} else {
		rest = math.Copysign(0, b)
	}
	if op == "%" {
		return Float(rest), nil
	}
	if quotient == 0 {
		return Float(math.Copysign(0, a/b)), nil
	}
	floor := math.Floor(quotient)
	if quotient-floor > 0.5 {
		floor++
	}
	return Float(floor), nil
}

func floatPower(a, b float64) (Value, error) {
	if a == 0 && b < 0 {
		return nil, valueErrorf("zero cannot be raised to a negative power")
	}
	if a < 0 && b != math.Trunc(b) && !math.IsInf(a, 0) {
		return nil, valueErrorf("a negative number has no real power with a fraction")
	}
	f := power(a, b)
	if math.IsInf(f, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		return nil, valueErrorf("the power is too large for a float")
	}
	return Float(f), nil
}

// power returns a to the b, rounded once, at the end: math.Pow rounds on the way
// and may miss the last digit. An exponent is a whole number of halves of
// halves, so roots and products are all it takes.
func power(a, b float64) float64 {
	if math.Abs(b) > 1100 || a == 0 || math.IsInf(a, 0) || math.IsNaN(a) || math.IsNaN(b) {
		return math.Pow(a, b)
	}
	const precision = 256
	result := big.NewFloat(1).SetPrec(precision)
	base := big.NewFloat(a).SetPrec(precision)
	exponent := math.Abs(b)
	for halvings := 0; exponent != math.Trunc(exponent); halvings++ {
		if halvings == 100 {
			return math.Pow(a, b)
		}
		exponent *= 2
		base.Sqrt(base)
	}
	for n := int64(exponent); n > 0; n >>= 1 {
		if n&1 == 1 {
			result.Mul(result, base)
		}
		base.Mul(base, base)
	}
	if b < 0 {
		result.Quo(big.NewFloat(1).SetPrec(precision), result)
	}
	f, _ := result.Float64()
	return f
}
