package template

import (
	"math/big"
)

// Value is what templates work on: None, Bool, Int, Float, Str, List, Tuple
// or *Dict, which behave and print like their namesakes in Python. Integers
// beyond 64 bits are values too; From and ParseJSON make them. A value never
// changes while a template uses it.
type Value interface {
	// typeName is Python's name of the type, for messages.
	typeName() string
}

type (
	// None is the value none; it prints as None.
	None struct{}
	// Bool prints as True or False, and counts as 1 or 0 in arithmetic.
	Bool bool
	// Int is a whole number. Results too large for it grow on as big integers.
	Int int64
	// Float prints in the shortest form that reads back the same.
	Float float64
	// Str is text; its elements are code points.
	Str string
	// List prints in brackets.
	List []Value
	// Tuple prints in parentheses.
	Tuple []Value
)

// bigInt is a whole number outside the range of Int.
type bigInt struct{ n *big.Int }

// undefined is the outcome of looking for something that is not there. A
// strict one may only be asked whether it is defined; a lenient one is empty.
type undefined struct {
	what   string // as the template wrote it
	strict bool
}

// view is what keys, values and items of a dict give: to be iterated.
type view struct {
	name  string
	items []Value
}

// method is a method of a value, named but not called.
type method struct{ name string }

func (None) typeName() string      { return "NoneType" }
func (Bool) typeName() string      { return "bool" }
func (Int) typeName() string       { return "int" }
func (bigInt) typeName() string    { return "int" }
func (Float) typeName() string     { return "float" }
func (Str) typeName() string       { return "str" }
func (List) typeName() string      { return "list" }
func (Tuple) typeName() string     { return "tuple" }
func (*Dict) typeName() string     { return "dict" }
func (*set) typeName() string      { return "set" }
func (*loop) typeName() string     { return "loop" }
func (undefined) typeName() string { return "undefined" }
func (v view) typeName() string    { return v.name }
func (method) typeName() string    { return "method" }

func (u undefined) err() error {
	return failf(KindUndefined, "%s is not defined", u.what)
}

// present refuses strict undefined values: nothing may be done with them.
func present(vs ...Value) error {
	for _, v := range vs {
		if u, ok := v.(undefined); ok && u.strict {
			return u.err()
		}
	}
	return nil
}

// truth returns Python's bool(v).
func truth(v Value) (bool, error) {
	switch v := v.(type) {
	case None:
		return false, nil
	case Bool:
		return bool(v), nil
	case Int:
		return v != 0, nil
	case Float:
		return v != 0, nil
	case Str:
		return v != "", nil
	case List:
		return len(v) > 0, nil
	case Tuple:
		return len(v) > 0, nil
	case *Dict:
		return v.Len() > 0, nil
	case *set:
		return v.members.Len() > 0, nil
	case view:
		return len(v.items) > 0, nil
	case undefined:
		return false, present(v)
	default:
		return true, nil
	}
}
