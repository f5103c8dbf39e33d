package template

import (
	"unicode/utf8"
)

// iterate returns the elements of v in order.
func (r *run) iterate(v Value) ([]Value, error) {
	switch v := v.(type) {
	case List:
		return v, nil
	case Tuple:
		return v, nil
	case *Dict:
		return v.keys, nil
	case *set:
		return v.members.keys, nil
	case view:
		return v.items, nil
	case Str:
		n := utf8.RuneCountInString(string(v))
		if err := r.elements(n); err != nil {
			return nil, err
		}
		items := make([]Value, 0, n)
		for _, c := range string(v) {
			items = append(items, Str(string(c)))
		}
		return items, nil
	case undefined:
		return nil, present(v)
	}
	return nil, valueErrorf("'%s' cannot be iterated", v.typeName())
}

// length returns Python's len(v).
func length(v Value) (int, error) {
	switch v := v.(type) {
	case List:
		return len(v), nil
	case Tuple:
		return len(v), nil
	case *Dict:
		return v.Len(), nil
	case *set:
		return v.members.Len(), nil
	case view:
		return len(v.items), nil
	case Str:
		return utf8.RuneCountInString(string(v)), nil
	case undefined:
		return 0, present(v)
	}
	return 0, valueErrorf("'%s' has no length", v.typeName())
}

// codePointAt returns the i-th code point of s, counted from the end if i < 0.
func codePointAt(s string, i int) (string, bool) {
	if i < 0 {
		i += utf8.RuneCountInString(s)
	}
	if i < 0 {
		return "", false
	}
	for _, c := range s {
		if i == 0 {
			return string(c), true
		}
		i--
	}
	return "", false
}

func (e *sliceExpr) eval(r *run) (Value, error) {
	obj, err := r.object(e.object)
	if err != nil {
		return nil, err
	}
	var bounds [3]*int
	for i, b := range []expr{e.start, e.end, e.step} {
		if b == nil {
			continue
		}
		if bounds[i], err = r.bound(b); err != nil {
			return nil, err
		}
	}
	switch obj := obj.(type) {
	case List:
		items, err := cut(r, obj, bounds)
		return List(items), err
	case Tuple:
		items, err := cut(r, obj, bounds)
		return Tuple(items), err
	case Str:
		if err := r.elements(len(obj) / 4); err != nil {
			return nil, err
		}
		runes, err := cut(r, []rune(string(obj)), bounds)
		return Str(string(runes)), err
	}
	return nil, valueErrorf("'%s' cannot be sliced", obj.typeName())
}

// bound evaluates a bound of a slice; nil stands for none.
func (r *run) bound(e expr) (*int, error) {
	v, err := r.eval(e)
	if err != nil {
		return nil, err
	}
	if err := present(v); err != nil {
		return nil, err
	}
	if v == (None{}) {
		return nil, nil
	}
	if n, ok := clampInt(v); ok {
		return &n, nil
	}
	return nil, valueErrorf("the bounds of a slice are integers, not %s", v.typeName())
}

// cut takes a slice with Python's rules for bounds left out, negative and
// beyond the ends.
func cut[T any](r *run, items []T, bounds [3]*int) ([]T, error) {
	step := 1
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, valueErrorf("the step of a slice cannot be zero")
	}
	n := len(items)
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	edge := func(b *int, otherwise int) int {
		if b == nil {
			return otherwise
		}
		i := *b
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	start, end := edge(bounds[0], low), edge(bounds[1], high)
	if step < 0 {
		start, end = edge(bounds[0], high), edge(bounds[1], low)
	}
	if err := r.elements(max(end-start, start-end)); err != nil {
		return nil, err
	}
	var out []T
	for i := start; step > 0 && i < end || step < 0 && i > end; i += step {
		out = append(out, items[i])
	}
	return out, nil
}
