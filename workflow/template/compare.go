package template

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// compare evaluates one comparison: ==, !=, an order, in or not in.
func (r *run) compare(op string, left, right Value) (bool, error) {
	if err := present(left, right); err != nil {
		return false, err
	}
	switch op {
	case "==":
		return r.equal(left, right, 0)
	case "!=":
		same, err := r.equal(left, right, 0)
		return !same, err
	case "in":
		return r.contains(right, left)
	case "not in":
		found, err := r.contains(right, left)
		return !found, err
	}
	for _, v := range []Value{left, right} {
		if u, ok := v.(undefined); ok {
			return false, u.err()
		}
	}
	order, err := r.order(op, left, right, 0)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return order == -1, nil
	case "<=":
		return order == -1 || order == 0, nil
	case ">":
		return order == 1, nil
	default:
		return order == 1 || order == 0, nil
	}
}

// unordered is the order of a number and NaN.
const unordered = 2

// equal reports Python's ==. An undefined value equals nothing.
func (r *run) equal(a, b Value, depth int) (bool, error) {
	if err := present(a, b); err != nil {
		return false, err
	}
	if err := r.descend(depth); err != nil {
		return false, err
	}
	for _, v := range []Value{a, b} {
		if v, ok := v.(view); ok {
			return false, valueErrorf("'%s' cannot be compared", v.name)
		}
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && orderNumbers(x, y) == 0, nil
	}
	switch a := a.(type) {
	case None:
		return b == None{}, nil
	case Str:
		s, ok := b.(Str)
		return ok && a == s, nil
	case List:
		if l, ok := b.(List); ok {
			return r.equalItems(a, l, depth)
		}
	case Tuple:
		if t, ok := b.(Tuple); ok {
			return r.equalItems(a, t, depth)
		}
	case *Dict:
		if d, ok := b.(*Dict); ok {
			return r.equalDicts(a, d, depth)
		}
	case *set:
		if s, ok := b.(*set); ok {
			return r.equalDicts(&a.members, &s.members, depth)
		}
	}
	return false, nil
}

// descend counts one look into a value at the given depth.
func (r *run) descend(depth int) error {
	if depth > maxDepth {
		return failf(KindLimit, "values nested deeper than %d", maxDepth)
	}
	return r.step(1)
}

func (r *run) equalItems(a, b []Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := r.equal(a[i], b[i], depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (r *run) equalDicts(a, b *Dict, depth int) (bool, error) {
	if a.Len() != b.Len() {
		return false, nil
	}
	for id, i := range a.index {
		j, ok := b.index[id]
		if !ok {
			return false, nil
		}
		if same, err := r.equal(a.values[i], b.values[j], depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// contains reports Python's needle in haystack.
func (r *run) contains(haystack, needle Value) (bool, error) {
	switch h := haystack.(type) {
	case Str:
		s, ok := needle.(Str)
		if !ok {
			return false, valueErrorf("cannot look for a %s in a string", needle.typeName())
		}
		return strings.Contains(string(h), string(s)), r.step(len(h) / 16)
	case *Dict:
		_, found, err := h.find(needle)
		return found, err
	case *set:
		_, found, err := h.members.find(needle)
		return found, err
	}
	items, err := r.iterate(haystack)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if same, err := r.equal(item, needle, 0); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

// order returns -1, 0 or 1, or unordered where NaN is involved.
func (r *run) order(op string, a, b Value, depth int) (int, error) {
	if err := r.descend(depth); err != nil {
		return 0, err
	}
	x, ok := number(a)
	y, ok2 := number(b)
	if ok && ok2 {
		return orderNumbers(x, y), nil
	}
	switch a := a.(type) {
	case Str:
		if s, ok := b.(Str); ok {
			// UTF-8 sorts as its code points do.
			return strings.Compare(string(a), string(s)), nil
		}
	case List:
		if l, ok := b.(List); ok {
			return r.orderItems(op, a, l, depth)
		}
	case Tuple:
		if t, ok := b.(Tuple); ok {
			return r.orderItems(op, a, t, depth)
		}
	}
	return 0, valueErrorf("cannot compare %s %s %s", a.typeName(), op, b.typeName())
}

// orderItems is decided by the first pair that differs, else by the length.
func (r *run) orderItems(op string, a, b []Value, depth int) (int, error) {
	for i := range min(len(a), len(b)) {
		same, err := r.equal(a[i], b[i], depth+1)
		if err != nil {
			return 0, err
		}
		if !same {
			return r.order(op, a[i], b[i], depth+1)
		}
	}
	return cmp.Compare(len(a), len(b)), nil
}

// orderNumbers compares exactly: no integer is rounded to a float.
func orderNumbers(a, b Value) int {
	f, aFloat := a.(Float)
	g, bFloat := b.(Float)
	switch {
	case aFloat && math.IsNaN(float64(f)) || bFloat && math.IsNaN(float64(g)):
		return unordered
	case aFloat && bFloat:
		return cmp.Compare(f, g)
	case aFloat:
		return -orderNumbers(b, a)
	}
	n, _ := whole(a)
	if !bFloat {
		m, _ := whole(b)
		return n.Cmp(m)
	}
	if math.IsInf(float64(g), 0) {
		return -cmp.Compare(float64(g), 0)
	}
	return new(big.Float).SetInt(n).Cmp(big.NewFloat(float64(g)))
}
