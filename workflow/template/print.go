package template

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// printer writes values as Python does, into a text the meter bounds.
type printer struct {
	*meter
	strings.Builder
}

// Print returns what {{ v }} prints.
func Print(v Value) (string, error) {
	p := printer{meter: &meter{}}
	err := p.str(v)
	return p.String(), err
}

func (p *printer) add(text string) error {
	if err := p.grow(len(text)); err != nil {
		return err
	}
	p.WriteString(text)
	return nil
}

// str writes Python's str(v).
func (p *printer) str(v Value) error {
	if s, ok := v.(Str); ok {
		return p.add(string(s))
	}
	if u, ok := v.(undefined); ok {
		return present(u)
	}
	return p.repr(v, 0)
}

// repr writes Python's repr(v).
func (p *printer) repr(v Value, depth int) error {
	if depth > maxDepth {
		return failf(KindLimit, "values nested deeper than %d", maxDepth)
	}
	if err := p.step(1); err != nil {
		return err
	}
	inner := func(v Value) error { return p.repr(v, depth+1) }
	switch v := v.(type) {
	case None:
		return p.add("None")
	case Bool:
		if v {
			return p.add("True")
		}
		return p.add("False")
	case Int:
		return p.add(strconv.FormatInt(int64(v), 10))
	case bigInt:
		return p.add(v.n.String())
	case Float:
		return p.add(formatFloat(float64(v)))
	case Str:
		return p.quoted(string(v))
	case List:
		return p.items("[", v, "]", inner)
	case Tuple:
		if len(v) == 1 {
			return p.items("(", v, ",)", inner)
		}
		return p.items("(", v, ")", inner)
	case *Dict:
		return p.pairs(v, inner, inner)
	case undefined:
		if err := present(v); err != nil {
			return err
		}
		return p.add("Undefined")
	case view:
		return p.items(v.name+"([", v.items, "])", inner)
	case method:
		return valueErrorf("the method %s is not called", v.name)
	}
	return valueErrorf("'%s' cannot be printed", v.typeName())
}

// items writes the elements of a list between open and end.
func (p *printer) items(open string, items []Value, end string, write func(Value) error) error {
	if len(items) == 0 {
		return p.add(open + end)
	}
	for _, item := range items {
		if err := p.add(open); err != nil {
			return err
		}
		if err := write(item); err != nil {
			return err
		}
		open = ", "
	}
	return p.add(end)
}

// pairs writes the entries of a dict between braces.
func (p *printer) pairs(d *Dict, key, value func(Value) error) error {
	open := "{"
	for k, v := range d.All() {
		if err := p.add(open); err != nil {
			return err
		}
		if err := key(k); err != nil {
			return err
		}
		if err := p.add(": "); err != nil {
			return err
		}
		if err := value(v); err != nil {
			return err
		}
		open = ", "
	}
	if d.Len() == 0 {
		return p.add("{}")
	}
	return p.add("}")
}

// quoted writes a string literal: in single quotes, unless the text holds
// those and no double ones.
func (p *printer) quoted(s string) error {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == ' ' || unicode.IsPrint(c):
			b.WriteRune(c)
		default:
			b.WriteString(asciiEscape(c))
		}
	}
	b.WriteRune(quote)
	return p.add(b.String())
}

// formatFloat returns the shortest text that reads back as f, with an exponent
// only where the point would be more than 16 digits right or 4 left.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f == 0:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	if a := math.Abs(f); a < 1e-4 || a >= 1e16 {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
