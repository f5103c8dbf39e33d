package template

import (
	"slices"
	"strings"
)

// binary computes left op right.
func (r *run) binary(op string, left, right Value) (Value, error) {
	for _, v := range []Value{left, right} {
		if u, ok := v.(undefined); ok {
			return nil, u.err()
		}
	}
	if s, ok := left.(Str); ok && op == "%" {
		return r.percent(string(s), right)
	}
	a, ok := number(left)
	b, ok2 := number(right)
	switch {
	case ok && ok2:
		if _, big := left.(bigInt); big || op == "**" {
			if err := r.step(longStep); err != nil {
				return nil, err
			}
		}
		return arithmetic(op, a, b)
	case op == "+":
		if v, err := r.join(left, right); v != nil || err != nil {
			return v, err
		}
	case op == "*":
		if n, ok := clampInt(right); ok {
			if v, err := r.repeat(left, n); v != nil || err != nil {
				return v, err
			}
		} else if n, ok := clampInt(left); ok {
			if v, err := r.repeat(right, n); v != nil || err != nil {
				return v, err
			}
		}
	}
	return nil, valueErrorf("cannot compute %s %s %s", left.typeName(), op, right.typeName())
}

// join computes + on two strings, lists or tuples; nil if they are not.
func (r *run) join(left, right Value) (Value, error) {
	switch a := left.(type) {
	case Str:
		if b, ok := right.(Str); ok {
			if err := r.grow(len(a) + len(b)); err != nil {
				return nil, err
			}
			return a + b, nil
		}
	case List:
		if b, ok := right.(List); ok {
			return slices.Concat(a, b), r.elements(len(a) + len(b))
		}
	case Tuple:
		if b, ok := right.(Tuple); ok {
			return slices.Concat(a, b), r.elements(len(a) + len(b))
		}
	}
	return nil, nil
}

// repeat computes v * n for strings, lists and tuples; nil for anything else.
func (r *run) repeat(v Value, n int) (Value, error) {
	n = max(n, 0)
	switch v := v.(type) {
	case Str:
		if err := r.grow(times(n, len(v))); err != nil {
			return nil, err
		}
		if v == "" {
			return v, nil
		}
		return Str(strings.Repeat(string(v), n)), nil
	case List:
		items, err := repeatItems(r, v, n)
		return List(items), err
	case Tuple:
		items, err := repeatItems(r, v, n)
		return Tuple(items), err
	}
	return nil, nil
}

func repeatItems(r *run, items []Value, n int) ([]Value, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := r.elements(times(n, len(items))); err != nil {
		return nil, err
	}
	out := make([]Value, 0, n*len(items))
	for range n {
		out = append(out, items...)
	}
	return out, nil
}
