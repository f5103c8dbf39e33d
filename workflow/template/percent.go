package template

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// directive is one field of a printf format: key, flags, width, precision, verb.
var directive = regexp.MustCompile(`^%(?:\(([^()]*)\))?([-+ #0]*)([0-9]+|\*)?(\.(?:[0-9]*|\*))?[hlL]?((?s:.))?`)

// percent computes Python's text % value.
func (r *run) percent(text string, value Value) (Value, error) {
	f := printf{run: r, value: value}
	if t, ok := value.(Tuple); ok {
		f.args = t
	} else {
		f.args = Tuple{value}
	}
	p := printer{meter: &r.meter}
	for text != "" {
		before, after, found := strings.Cut(text, "%")
		if err := p.add(before); err != nil {
			return nil, err
		}
		if !found {
			break
		}
		m := directive.FindStringSubmatch("%" + after)
		if m[5] == "" {
			return nil, valueErrorf("a format that ends inside a field")
		}
		field, err := f.field(m)
		if err != nil {
			return nil, err
		}
		if err := p.add(field); err != nil {
			return nil, err
		}
		text = after[len(m[0])-1:]
	}
	// Python takes a dict or a list for a source of named fields, and does
	// not mind if no field uses it.
	switch value.(type) {
	case *Dict, List:
	default:
		if f.used < len(f.args) {
			return nil, valueErrorf("a format with fewer fields than values")
		}
	}
	return Str(p.String()), nil
}

// printf fills the fields of one printf format.
type printf struct {
	run   *run
	value Value
	args  Tuple
	used  int
}

// field fills one field, given as the parts of its directive.
func (f *printf) field(m []string) (string, error) {
	if m[5] == "%" {
		return "%", nil
	}
	if m[3] == "*" || m[4] == ".*" {
		return "", valueErrorf("a format with * is not supported")
	}
	v, err := f.next(m[1], strings.HasPrefix(m[0], "%("))
	if err != nil {
		return "", err
	}
	s, err := printfSpec(m)
	if err != nil {
		return "", err
	}
	if err := f.run.grow(s.width + max(s.precision, 0)); err != nil {
		return "", err
	}
	switch s.verb {
	case "s", "r", "a":
		return f.text(s, v)
	case "d", "i", "u", "o", "x", "X":
		return printfWhole(s, v)
	case "e", "E", "f", "F", "g", "G":
		n, ok := number(v)
		if !ok {
			return "", valueErrorf("%%%s needs a number, not %s", s.verb, v.typeName())
		}
		x, err := toFloat(n)
		return s.float(x), err
	case "c":
		return printfRune(s, v)
	}
	return "", valueErrorf("unknown field %%%s of a format", s.verb)
}

// next returns the value of the next field.
func (f *printf) next(key string, keyed bool) (Value, error) {
	if keyed {
		d, ok := f.value.(*Dict)
		if !ok {
			return nil, valueErrorf("a format with names needs a dict")
		}
		v, ok := d.Get(key)
		if !ok {
			return nil, failf(KindUndefined, "%s of a format is not defined", key)
		}
		return v, present(v)
	}
	if f.used == len(f.args) {
		return nil, valueErrorf("a format with more fields than values")
	}
	f.used++
	v := f.args[f.used-1]
	return v, present(v)
}

func printfSpec(m []string) (spec, error) {
	s := spec{fill: " ", align: ">", precision: -1, verb: m[5], alternate: strings.Contains(m[2], "#")}
	switch {
	case strings.Contains(m[2], "+"):
		s.sign = "+"
	case strings.Contains(m[2], " "):
		s.sign = " "
	}
	switch {
	case strings.Contains(m[2], "-"):
		s.align = "<"
	case strings.Contains(m[2], "0") && !strings.ContainsAny(s.verb, "srac"):
		s.fill, s.align = "0", "="
	}
	var err error
	if m[3] != "" {
		if s.width, err = strconv.Atoi(m[3]); err != nil || s.width > maxWidth {
			return s, failf(KindLimit, "a format of width %s", m[3])
		}
	}
	if m[4] != "" {
		if s.precision, err = strconv.Atoi("0" + m[4][1:]); err != nil || s.precision > maxWidth {
			return s, failf(KindLimit, "a format of precision %s", m[4])
		}
	}
	return s, nil
}

func (f *printf) text(s spec, v Value) (string, error) {
	p := printer{meter: &f.run.meter}
	var err error
	if s.verb == "s" {
		err = p.str(v)
	} else {
		err = p.repr(v, 0)
	}
	if err != nil {
		return "", err
	}
	text := p.String()
	if s.verb == "a" {
		text = asciiOnly(text)
	}
	if s.precision >= 0 && utf8.RuneCountInString(text) > s.precision {
		text = string([]rune(text)[:s.precision])
	}
	return s.pad("", text), nil
}

// printfWhole cuts the fraction off floats for decimal fields; the others
// take integers only. The precision is the least number of digits.
func printfWhole(s spec, v Value) (string, error) {
	n, ok := whole(v)
	if f, isFloat := v.(Float); isFloat && strings.ContainsAny(s.verb, "diu") {
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return "", valueErrorf("%s is no integer", formatFloat(float64(f)))
		}
		n, _ = big.NewFloat(float64(f)).Int(nil)
		ok = true
	}
	if !ok {
		return "", valueErrorf("%%%s needs an integer, not %s", s.verb, v.typeName())
	}
	base, prefix := 10, ""
	switch s.verb {
	case "o":
		base, prefix = 8, "0o"
	case "x", "X":
		base, prefix = 16, "0"+s.verb
	}
	if !s.alternate {
		prefix = ""
	}
	digits := new(big.Int).Abs(n).Text(base)
	if s.verb == "X" {
		digits = strings.ToUpper(digits)
	}
	if missing := s.precision - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return s.pad(s.signOf(n.Sign() < 0)+prefix, digits), nil
}

func printfRune(s spec, v Value) (string, error) {
	if n, ok := whole(v); ok {
		s.sign = ""
		return s.character(n)
	}
	if c, ok := v.(Str); ok && utf8.RuneCountInString(string(c)) == 1 {
		return s.pad("", string(c)), nil
	}
	return "", valueErrorf("%%c needs one character")
}
