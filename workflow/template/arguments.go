package template

import "slices"

// arguments are the values of a call.
type arguments struct {
	function   string
	positional []Value
	names      []string
	named      []Value
}

// arguments evaluates the arguments of a call; all of them must be defined.
func (r *run) arguments(function string, list argList) (arguments, error) {
	a := arguments{function: function, names: list.names}
	var err error
	if a.positional, err = r.evalAll(list.positional); err != nil {
		return a, err
	}
	if a.named, err = r.evalAll(list.named); err != nil {
		return a, err
	}
	if err := present(a.positional...); err != nil {
		return a, err
	}
	return a, present(a.named...)
}

// bind matches the arguments with parameters, of which the first required
// must be given. The others are nil when left out. A parameter called ""
// has no name.
func (a arguments) bind(required int, params ...string) ([]Value, error) {
	if len(a.positional) > len(params) {
		return nil, valueErrorf("%s takes at most %d arguments", a.function, len(params))
	}
	bound := make([]Value, len(params))
	copy(bound, a.positional)
	for i, name := range a.names {
		at := slices.Index(params, name)
		if at < 0 {
			return nil, valueErrorf("%s has no argument %s", a.function, name)
		}
		if bound[at] != nil {
			return nil, valueErrorf("%s got the argument %s twice", a.function, name)
		}
		bound[at] = a.named[i]
	}
	for i := range required {
		if bound[i] == nil {
			return nil, valueErrorf("%s needs an argument more", a.function)
		}
	}
	return bound, nil
}

// wantStr reads an argument that must be a string.
func wantStr(function string, v Value) (string, error) {
	s, ok := v.(Str)
	if !ok {
		return "", valueErrorf("%s needs a string, not %s", function, v.typeName())
	}
	return string(s), nil
}

// wantInt reads an argument that must be an integer, if it is given at all.
func wantInt(function string, v Value, otherwise int) (int, error) {
	if v == nil {
		return otherwise, nil
	}
	n, ok := clampInt(v)
	if !ok {
		return 0, valueErrorf("%s needs an integer, not %s", function, v.typeName())
	}
	return n, nil
}
