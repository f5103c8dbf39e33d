package template

import (
	"strings"
	"unicode/utf8"
)

// methodDef is a method. None changes its value. A parameter without a name is
// positional only.
type methodDef[T Value] struct {
	params   []string
	required int // of params
	call     func(r *run, name string, object T, args []Value) (Value, error)
}

// The methods of strings, dicts and lists; there are no others. format binds
// its arguments itself.
var (
	stringMethods = map[string]methodDef[Str]{
		"format":     {},
		"lower":      {nil, 0, changeCase},
		"upper":      {nil, 0, changeCase},
		"title":      {nil, 0, changeCase},
		"capitalize": {nil, 0, changeCase},
		"strip":      {[]string{""}, 0, strip},
		"lstrip":     {[]string{""}, 0, strip},
		"rstrip":     {[]string{""}, 0, strip},
		"split":      {[]string{"sep", "maxsplit"}, 0, split},
		"splitlines": {[]string{"keepends"}, 0, splitIntoLines},
		"replace":    {[]string{"", "", ""}, 2, replace},
		"startswith": {[]string{"", "", ""}, 1, affix},
		"endswith":   {[]string{"", "", ""}, 1, affix},
		"find":       {[]string{"", "", ""}, 1, search},
		"count":      {[]string{"", "", ""}, 1, search},
		"join":       {[]string{""}, 1, joinStrings},
	}
	dictMethods = map[string]methodDef[*Dict]{
		"get":    {[]string{"", ""}, 1, dictGet},
		"items":  {nil, 0, dictView},
		"keys":   {nil, 0, dictView},
		"values": {nil, 0, dictView},
	}
	listMethods = map[string]methodDef[List]{
		"count": {[]string{""}, 1, listCount},
		"index": {[]string{"", "", ""}, 1, listIndex},
	}
)

func isMethod(name string) bool {
	_, ofString := stringMethods[name]
	_, ofDict := dictMethods[name]
	_, ofList := listMethods[name]
	return ofString || ofDict || ofList
}

// boundMethod is a method of one value, ready to be called.
type boundMethod func(r *run, args arguments) (Value, error)

func methodOf(v Value, name string) (boundMethod, bool) {
	switch v := v.(type) {
	case Str:
		return bindMethod(stringMethods, v, name)
	case *Dict:
		return bindMethod(dictMethods, v, name)
	case List:
		return bindMethod(listMethods, v, name)
	case Tuple:
		return bindMethod(listMethods, List(v), name)
	}
	return nil, false
}

func bindMethod[T Value](methods map[string]methodDef[T], object T, name string) (boundMethod, bool) {
	m, ok := methods[name]
	return func(r *run, args arguments) (Value, error) {
		bound, err := args.bind(m.required, m.params...)
		if err != nil {
			return nil, err
		}
		return m.call(r, name, object, bound)
	}, ok
}

func (e *methodCall) eval(r *run) (Value, error) {
	obj, err := r.object(e.object)
	if err != nil {
		return nil, err
	}
	call, ok := methodOf(obj, e.name)
	if !ok {
		return nil, failf(KindUndefined, "%s has no method %s, it is of type %s", describe(e.object), e.name, obj.typeName())
	}
	args, err := r.arguments(e.name, e.args)
	if err != nil {
		return nil, err
	}
	if s, ok := obj.(Str); ok {
		if err := r.step(1 + len(s)/16); err != nil {
			return nil, err
		}
		// No method but join, replace and format makes more than three times
		// the text it is given.
		if err := r.grow(3 * len(s)); err != nil {
			return nil, err
		}
		if e.name == "format" {
			return r.format(string(s), args)
		}
	}
	return call(r, args)
}

func dictGet(_ *run, _ string, d *Dict, a []Value) (Value, error) {
	v, ok, err := d.find(a[0])
	switch {
	case err != nil || ok:
		return v, err
	case a[1] != nil:
		return a[1], nil
	}
	return None{}, nil
}

func dictView(r *run, name string, d *Dict, _ []Value) (Value, error) {
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

func listCount(r *run, _ string, items List, a []Value) (Value, error) {
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

func listIndex(r *run, name string, items List, a []Value) (Value, error) {
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

func changeCase(_ *run, name string, s Str, _ []Value) (Value, error) {
	change := map[string]func(string) string{"lower": lower, "upper": upper, "title": title, "capitalize": capitalize}[name]
	return Str(change(string(s))), nil
}

func splitIntoLines(r *run, _ string, s Str, a []Value) (Value, error) {
	keep := false
	if a[0] != nil {
		var err error
		if keep, err = truth(a[0]); err != nil {
			return nil, err
		}
	}
	return r.stringList(splitLines(string(s), keep))
}

func strip(_ *run, name string, text Str, a []Value) (Value, error) {
	s := string(text)
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

func split(r *run, _ string, text Str, a []Value) (Value, error) {
	s := string(text)
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

func replace(r *run, _ string, text Str, a []Value) (Value, error) {
	s := string(text)
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

// affix implements startswith and endswith, for one string or a tuple of them.
func affix(_ *run, name string, text Str, a []Value) (Value, error) {
	s, _, ok, err := within(string(text), name, a[1], a[2])
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

// search implements find and count.
func search(_ *run, name string, text Str, a []Value) (Value, error) {
	s := string(text)
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

// within returns the part of s between two bounds in code points, and how many
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

func joinStrings(r *run, _ string, sep Str, a []Value) (Value, error) {
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
			if err := p.add(string(sep)); err != nil {
				return nil, err
			}
		}
		if err := p.add(string(s)); err != nil {
			return nil, err
		}
	}
	return Str(p.String()), nil
}
