package template

import (
	"math"
	"math/big"
	"strings"
)

// global is a function of conditions.
type global struct {
	name string
	call func(r *run, args arguments) (Value, error)
}

// globals are the functions of conditions. Templates have none.
var globals = map[string]global{
	"range": {"range", rangeOf},
	"len":   {"len", oneValue(nil, func(_ *run, v Value) (Value, error) { n, err := length(v); return Int(n), err })},
	"str":   {"str", oneValue(Str(""), func(r *run, v Value) (Value, error) { s, err := r.text(v); return Str(s), err })},
	"bool":  {"bool", oneValue(Bool(false), func(_ *run, v Value) (Value, error) { b, err := truth(v); return Bool(b), err })},
	"float": {"float", oneValue(Float(0), floatOf)},
	"int":   {"int", oneValue(Int(0), intOf)},
	"list":  {"list", listOf},
	"tuple": {"tuple", tupleOf},
	"set":   {"set", setOf},
	"dict":  {"dict", dictOf},
}

func (e *globalCall) eval(r *run) (Value, error) {
	args, err := r.arguments(e.function.name, e.args)
	if err != nil {
		return nil, err
	}
	return e.function.call(r, args)
}

// oneValue makes a function of one argument. Without it the value is zero; nil
// says that the argument must be given.
func oneValue(zero Value, f func(*run, Value) (Value, error)) func(*run, arguments) (Value, error) {
	return func(r *run, args arguments) (Value, error) {
		required := 0
		if zero == nil {
			required = 1
		}
		a, err := args.bind(required, "")
		if err != nil {
			return nil, err
		}
		if a[0] == nil {
			return zero, nil
		}
		return f(r, a[0])
	}
}

func rangeOf(r *run, args arguments) (Value, error) {
	a, err := args.bind(1, "", "", "")
	if err != nil {
		return nil, err
	}
	var bounds [3]int
	for i, v := range a {
		if bounds[i], err = wantInt("range", v, 1); err != nil {
			return nil, err
		}
	}
	start, end, step := bounds[0], bounds[1], bounds[2]
	if a[1] == nil {
		start, end = 0, bounds[0]
	}
	if step == 0 {
		return nil, valueErrorf("the step of range cannot be zero")
	}
	var items List
	for i := start; step > 0 && i < end || step < 0 && i > end; i += step {
		if len(items) == maxRange {
			return nil, failf(KindLimit, "a range of more than %d numbers", maxRange)
		}
		items = append(items, Int(i))
	}
	return items, r.elements(len(items))
}

func floatOf(_ *run, v Value) (Value, error) {
	if n, ok := number(v); ok {
		f, err := toFloat(n)
		return Float(f), err
	}
	s, ok := v.(Str)
	if !ok {
		return nil, valueErrorf("float needs a number or a string, not %s", v.typeName())
	}
	text := strings.TrimFunc(string(s), isSpace)
	digits, ok := withoutUnderscores(text)
	// Go reads hexadecimal floats, Python does not.
	if !ok || strings.ContainsAny(digits, "xXpP") {
		return nil, valueErrorf("%s is not a number", brief(v))
	}
	f, err := parseFloat(digits)
	if err != nil {
		return nil, valueErrorf("%s is not a number", brief(v))
	}
	return f, nil
}

// withoutUnderscores takes out the underscores, each of which must stand
// between two digits.
func withoutUnderscores(s string) (string, bool) {
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i == len(s)-1 || !isDigit(s[i-1]) || !isDigit(s[i+1])) {
			return "", false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func intOf(_ *run, v Value) (Value, error) {
	switch v := v.(type) {
	case Bool, Int, bigInt:
		n, _ := number(v)
		return n, nil
	case Float:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, valueErrorf("%s is no integer", formatFloat(float64(v)))
		}
		n, _ := big.NewFloat(float64(v)).Int(nil)
		return wholeNumber(n)
	case Str:
		digits, ok := withoutUnderscores(strings.TrimFunc(string(v), isSpace))
		if !ok || len(digits) > maxIntBits {
			return nil, valueErrorf("%s is not an integer", brief(v))
		}
		n, ok := new(big.Int).SetString(digits, 10)
		if !ok {
			return nil, valueErrorf("%s is not an integer", brief(v))
		}
		return wholeNumber(n)
	}
	return nil, valueErrorf("int needs a number or a string, not %s", v.typeName())
}

// elementsOf returns the elements of the one optional argument.
func elementsOf(r *run, args arguments) ([]Value, error) {
	a, err := args.bind(0, "")
	if err != nil || a[0] == nil {
		return nil, err
	}
	items, err := r.iterate(a[0])
	if err != nil {
		return nil, err
	}
	return items, r.elements(len(items))
}

func listOf(r *run, args arguments) (Value, error) {
	items, err := elementsOf(r, args)
	return List(items), err
}

func tupleOf(r *run, args arguments) (Value, error) {
	items, err := elementsOf(r, args)
	return Tuple(items), err
}

func setOf(r *run, args arguments) (Value, error) {
	items, err := elementsOf(r, args)
	if err != nil {
		return nil, err
	}
	s := &set{}
	for _, item := range items {
		// A member is its own value, so that equal sets are equal dicts.
		id, err := identity(item)
		if err != nil {
			return nil, err
		}
		s.members.put(id, item, item)
	}
	return s, nil
}

// dictOf makes a dict of a dict or of pairs, and of named arguments.
func dictOf(r *run, args arguments) (Value, error) {
	d := &Dict{}
	if len(args.positional) > 1 {
		return nil, valueErrorf("dict takes at most one argument without a name")
	}
	for _, v := range args.positional {
		if from, ok := v.(*Dict); ok {
			for k, v := range from.All() {
				if err := d.setValue(k, v); err != nil {
					return nil, err
				}
			}
			continue
		}
		pairs, err := r.iterate(v)
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			kv, err := r.iterate(pair)
			if err != nil {
				return nil, err
			}
			if len(kv) != 2 {
				return nil, valueErrorf("dict needs pairs")
			}
			if err := d.setValue(kv[0], kv[1]); err != nil {
				return nil, err
			}
		}
	}
	for i, name := range args.names {
		d.Set(name, args.named[i])
	}
	return d, r.elements(2 * d.Len())
}
