package template

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// The methods there are. All of them read; none changes its value.
var (
	stringMethods = []string{
		"capitalize", "count", "endswith", "find", "format", "join", "lower", "lstrip", "replace",
		"rstrip", "split", "splitlines", "startswith", "strip", "title", "upper",
	}
	dictMethods = []string{"get", "items", "keys", "values"}
	listMethods = []string{"count", "index"}
)

func isMethod(name string) bool {
	return slices.Contains(stringMethods, name) || slices.Contains(dictMethods, name) ||
		slices.Contains(listMethods, name)
}

func hasMethod(v Value, name string) bool {
	switch v.(type) {
	case Str:
		return slices.Contains(stringMethods, name)
	case *Dict:
		return slices.Contains(dictMethods, name)
	case List, Tuple:
		return slices.Contains(listMethods, name)
	}
	return false
}

func (e *methodCall) eval(r *run) (Value, error) {
	obj, err := r.object(e.object)
	if err != nil {
		return nil, err
	}
	if !hasMethod(obj, e.name) {
		return nil, failf(KindUndefined, "%s has no method %s, it is of type %s", describe(e.object), e.name, obj.typeName())
	}
	args, err := r.arguments(e.name, e.args)
	if err != nil {
		return nil, err
	}
	switch obj := obj.(type) {
	case Str:
		return r.stringMethod(string(obj), e.name, args)
	case *Dict:
		return r.dictMethod(obj, e.name, args)
	case List:
		return r.listMethod(obj, e.name, args)
	case Tuple:
		return r.listMethod(obj, e.name, args)
	}
	return nil, valueErrorf("'%s' has no methods", obj.typeName())
}

func (r *run) dictMethod(d *Dict, name string, args arguments) (Value, error) {
	if name == "get" {
		a, err := args.bind(1, "", "")
		if err != nil {
			return nil, err
		}
		v, ok, err := d.find(a[0])
		switch {
		case err != nil || ok:
			return v, err
		case a[1] != nil:
			return a[1], nil
		}
		return None{}, nil
	}
	if _, err := args.bind(0); err != nil {
		return nil, err
	}
	if err := r.elements(2 * d.Len()); err != nil {
		return nil, err
	}
	switch name {
	case "keys":
		return view{"dict_keys", d.keys}, nil
	case "values":
		return view{"dict_values", d.values}, nil
	}
	pairs := make([]Value, 0, d.Len())
	for k, v := range d.All() {
		pairs = append(pairs, Tuple{k, v})
	}
	return view{"dict_items", pairs}, nil
}

func (r *run) listMethod(items []Value, name string, args arguments) (Value, error) {
	a, err := args.bind(1, "", "", "")
	if err != nil {
		return nil, err
	}
	if name == "count" {
		if a[1] != nil {
			return nil, valueErrorf("count takes one argument")
		}
		n := 0
		for _, item := range items {
			same, err := r.equal(item, a[0], 0)
			if err != nil {
				return nil, err
			}
			if same {
				n++
			}
		}
		return Int(n), nil
	}
	start, end, err := span(name, a[1], a[2], len(items))
	if err != nil {
		return nil, err
	}
	for i := start; i < end; i++ {
		same, err := r.equal(items[i], a[0], 0)
		if err != nil {
			return nil, err
		}
		if same {
			return Int(i), nil
		}
	}
	return nil, valueErrorf("%s is not in the list", brief(a[0]))
}

// span reads the bounds of a search, which work like those of a slice.
func span(function string, from, to Value, n int) (start, end int, err error) {
	bound := func(v Value, otherwise int) (int, error) {
		if v == (None{}) {
			v = nil
		}
		i, err := wantInt(function, v, otherwise)
		if i < 0 {
			i = max(i+n, 0)
		}
		return i, err
	}
	if start, err = bound(from, 0); err != nil {
		return 0, 0, err
	}
	end, err = bound(to, n)
	return start, min(end, n), err
}

func (r *run) stringMethod(s, name string, args arguments) (Value, error) {
	if err := r.step(1 + len(s)/16); err != nil {
		return nil, err
	}
	// No method but join, replace and format makes more than three times
	// the text it is given.
	if err := r.grow(3 * len(s)); err != nil {
		return nil, err
	}
	switch name {
	case "lower", "upper", "title", "capitalize":
		if _, err := args.bind(0); err != nil {
			return nil, err
		}
		return Str(changeCase(name, s)), nil
	case "strip", "lstrip", "rstrip":
		return strip(s, name, args)
	case "split":
		return r.split(s, args)
	case "splitlines":
		a, err := args.bind(0, "keepends")
		if err != nil {
			return nil, err
		}
		keep := false
		if a[0] != nil {
			if keep, err = truth(a[0]); err != nil {
				return nil, err
			}
		}
		return r.stringList(splitLines(s, keep))
	case "replace":
		return r.replace(s, args)
	case "startswith", "endswith":
		return affix(s, name, args)
	case "find", "count":
		return search(s, name, args)
	case "join":
		return r.joinStrings(s, args)
	default:
		return r.format(s, args)
	}
}

func changeCase(name, s string) string {
	switch name {
	case "lower":
		return lower(s)
	case "upper":
		return upper(s)
	case "title":
		return title(s)
	default:
		return capitalize(s)
	}
}

func strip(s, name string, args arguments) (Value, error) {
	a, err := args.bind(0, "")
	if err != nil {
		return nil, err
	}
	drop := isSpace
	if a[0] != nil && a[0] != (None{}) {
		chars, err := wantStr(name, a[0])
		if err != nil {
			return nil, err
		}
		drop = func(c rune) bool { return strings.ContainsRune(chars, c) }
	}
	if name != "rstrip" {
		s = strings.TrimLeftFunc(s, drop)
	}
	if name != "lstrip" {
		s = strings.TrimRightFunc(s, drop)
	}
	return Str(s), nil
}

func (r *run) split(s string, args arguments) (Value, error) {
	a, err := args.bind(0, "sep", "maxsplit")
	if err != nil {
		return nil, err
	}
	limit, err := wantInt("split", a[1], -1)
	if err != nil {
		return nil, err
	}
	if a[0] == nil || a[0] == (None{}) {
		return r.stringList(splitSpace(s, limit))
	}
	sep, err := wantStr("split", a[0])
	if err != nil {
		return nil, err
	}
	if sep == "" {
		return nil, valueErrorf("split needs a separator that is not empty")
	}
	if limit >= 0 {
		limit++
	}
	return r.stringList(strings.SplitN(s, sep, limit))
}

func (r *run) stringList(parts []string) (Value, error) {
	if err := r.elements(2 * len(parts)); err != nil {
		return nil, err
	}
	list := make(List, len(parts))
	for i, part := range parts {
		list[i] = Str(part)
	}
	return list, nil
}

func (r *run) replace(s string, args arguments) (Value, error) {
	a, err := args.bind(2, "", "", "")
	if err != nil {
		return nil, err
	}
	old, err := wantStr("replace", a[0])
	if err != nil {
		return nil, err
	}
	replacement, err := wantStr("replace", a[1])
	if err != nil {
		return nil, err
	}
	limit, err := wantInt("replace", a[2], -1)
	if err != nil {
		return nil, err
	}
	n := strings.Count(s, old)
	if limit >= 0 {
		n = min(n, limit)
	}
	if err := r.grow(times(n, len(replacement))); err != nil {
		return nil, err
	}
	return Str(strings.Replace(s, old, replacement, limit)), nil
}

// affix is startswith and endswith, for one string or a tuple of them.
func affix(s, name string, args arguments) (Value, error) {
	a, err := args.bind(1, "", "", "")
	if err != nil {
		return nil, err
	}
	s, _, ok, err := within(s, name, a[1], a[2])
	if err != nil {
		return nil, err
	}
	choices, isTuple := a[0].(Tuple)
	if !isTuple {
		choices = Tuple{a[0]}
	}
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	for _, choice := range choices {
		text, err := wantStr(name, choice)
		if err != nil {
			return nil, err
		}
		if ok && has(s, text) {
			return Bool(true), nil
		}
	}
	return Bool(false), nil
}

// search is find and count.
func search(s, name string, args arguments) (Value, error) {
	a, err := args.bind(1, "", "", "")
	if err != nil {
		return nil, err
	}
	needle, err := wantStr(name, a[0])
	if err != nil {
		return nil, err
	}
	s, skipped, ok, err := within(s, name, a[1], a[2])
	if err != nil {
		return nil, err
	}
	switch {
	case name == "count" && !ok:
		return Int(0), nil
	case name == "count":
		return Int(strings.Count(s, needle)), nil
	}
	i := strings.Index(s, needle)
	if !ok || i < 0 {
		return Int(-1), nil
	}
	return Int(skipped + utf8.RuneCountInString(s[:i])), nil
}

// within is the part of s between two bounds in code points, and how many
// lie before it. A start beyond the end holds nothing, not even "".
func within(s, function string, from, to Value) (part string, skipped int, ok bool, err error) {
	if from == nil && to == nil {
		return s, 0, true, nil
	}
	runes := []rune(s)
	start, end, err := span(function, from, to, len(runes))
	if err != nil || start > end {
		return "", 0, false, err
	}
	return string(runes[start:end]), start, true, nil
}

func (r *run) joinStrings(sep string, args arguments) (Value, error) {
	a, err := args.bind(1, "")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(a[0])
	if err != nil {
		return nil, err
	}
	p := printer{meter: &r.meter}
	for i, item := range items {
		s, ok := item.(Str)
		if !ok {
			if err := present(item); err != nil {
				return nil, err
			}
			return nil, valueErrorf("join needs strings, element %d is a %s", i, item.typeName())
		}
		if i > 0 {
			if err := p.add(sep); err != nil {
				return nil, err
			}
		}
		if err := p.add(string(s)); err != nil {
			return nil, err
		}
	}
	return Str(p.String()), nil
}
