package template

import (
	"slices"
	"unicode/utf8"
)

// filter is what may follow |.
type filter struct {
	name     string
	params   []string
	required int // of params
	call     func(r *run, v Value, args []Value) (Value, error)
}

// The filters of templates and of conditions; there are no others.
var (
	templateFilters = map[string]filter{
		"truncate":     {"truncate", []string{"n"}, 0, truncate},
		"tojson":       {"tojson", nil, 0, toJSON},
		"title":        {"title", nil, 0, titleFilter},
		"regex_search": {"regex_search", []string{"p"}, 1, regexSearch},
	}
	conditionFilters = map[string]filter{
		"default": {"default", []string{"d"}, 1, defaultTo},
		"length":  {"length", nil, 0, lengthOf},
		"lower":   {"lower", nil, 0, lowerFilter},
		"upper":   {"upper", nil, 0, upperFilter},
		"search":  {"search", []string{"p"}, 1, searchFilter},
	}
)

// check refuses calls that could never work: a wrong number of arguments, or
// a constant pattern that is not one.
func (f filter) check(args argList) error {
	given := len(args.positional) + len(args.names)
	if given < f.required || given > len(f.params) {
		return failf(KindSyntax, "the filter %s takes %s", f.name, takes(f))
	}
	for _, name := range args.names {
		if !slices.Contains(f.params, name) {
			return failf(KindSyntax, "the filter %s has no argument %s", f.name, name)
		}
	}
	if len(args.positional) == 1 && f.params[0] == "p" {
		if c, ok := args.positional[0].(*constExpr); ok {
			if s, ok := c.value.(Str); ok {
				if _, err := compilePattern(string(s), false); err != nil {
					return failf(KindSyntax, "%s", err)
				}
			}
		}
	}
	return nil
}

func takes(f filter) string {
	switch {
	case len(f.params) == 0:
		return "no argument"
	case f.required == 1:
		return "one argument"
	default:
		return "at most one argument"
	}
}

func (e *filterExpr) eval(r *run) (Value, error) {
	v, err := r.eval(e.object)
	if err != nil {
		return nil, err
	}
	return e.apply(r, v)
}

func (e *filterExpr) apply(r *run, v Value) (Value, error) {
	if err := present(v); err != nil {
		return nil, err
	}
	args, err := r.arguments("the filter "+e.filter.name, e.args)
	if err != nil {
		return nil, err
	}
	bound, err := args.bind(e.filter.required, e.filter.params...)
	if err != nil {
		return nil, err
	}
	return e.filter.call(r, v, bound)
}

// text returns Python's str(v), for filters that work on text.
func (r *run) text(v Value) (string, error) {
	if s, ok := v.(Str); ok {
		return string(s), nil
	}
	p := printer{meter: &r.meter}
	err := p.str(v)
	return p.String(), err
}

// truncate keeps a text of up to n code points and cuts a longer one to n,
// the last three of them points.
func truncate(r *run, v Value, args []Value) (Value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	n, err := wantInt("truncate", args[0], 100)
	if err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(s) <= n {
		return Str(s), nil
	}
	if err := r.elements(len(s) / 4); err != nil {
		return nil, err
	}
	end := n - 3
	kept, err := cut(r, []rune(s), [3]*int{nil, &end, nil})
	return Str(string(kept) + "..."), err
}

func toJSON(r *run, v Value, _ []Value) (Value, error) {
	p := printer{meter: &r.meter}
	err := p.json(v, 0)
	return Str(p.String()), err
}

func titleFilter(r *run, v Value, _ []Value) (Value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	return Str(title(s)), r.grow(3 * len(s))
}

// regexSearch returns group 1 of the first match, whatever the case, else "".
func regexSearch(r *run, v Value, args []Value) (Value, error) {
	m, _, err := r.match(v, args[0], true)
	return Str(m), err
}

// searchFilter reports whether the pattern matches anywhere.
func searchFilter(r *run, v Value, args []Value) (Value, error) {
	_, found, err := r.match(v, args[0], false)
	return Bool(found), err
}

func (r *run) match(v, pattern Value, ignoreCase bool) (group string, found bool, err error) {
	s, err := r.text(v)
	if err != nil {
		return "", false, err
	}
	p, err := wantStr("a pattern", pattern)
	if err != nil {
		return "", false, err
	}
	re, err := compilePattern(p, ignoreCase)
	if err != nil {
		return "", false, valueErrorf("%s", err)
	}
	if err := r.grow(4 * len(s)); err != nil {
		return "", false, err
	}
	m, err := searchPattern(re, s, &r.matching)
	if err != nil {
		return "", false, failf(KindLimit, "pattern %s: %s", brief(pattern), err)
	}
	if m == nil {
		return "", false, nil
	}
	if g := m.GroupByNumber(firstGroup); g != nil && len(g.Captures) > 0 {
		group = g.String()
	}
	return group, true, nil
}

func defaultTo(_ *run, v Value, args []Value) (Value, error) {
	if v == Value(None{}) {
		return args[0], nil
	}
	return v, nil
}

func lengthOf(_ *run, v Value, _ []Value) (Value, error) {
	n, err := length(v)
	return Int(n), err
}

func lowerFilter(r *run, v Value, _ []Value) (Value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	return Str(lower(s)), r.grow(3 * len(s))
}

func upperFilter(r *run, v Value, _ []Value) (Value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	return Str(upper(s)), r.grow(3 * len(s))
}
