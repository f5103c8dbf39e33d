package template

import (
	"fmt"
	"math"
	"strings"
)

// json writes v as JSON: ", " and ": " between the parts, everything beyond
// ASCII as it is, and floats as Python writes them, NaN and Infinity too.
func (p *printer) json(v Value, depth int) error {
	if depth > maxDepth {
		return failf(KindLimit, "values nested deeper than %d", maxDepth)
	}
	if err := p.step(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case None:
		return p.add("null")
	case Bool:
		return p.add(fmt.Sprint(bool(v)))
	case Int, bigInt:
		return p.repr(v, depth)
	case Float:
		return p.add(jsonFloat(float64(v)))
	case Str:
		return p.jsonString(string(v))
	case List:
		return p.jsonArray(v, depth)
	case Tuple:
		return p.jsonArray(v, depth)
	case *Dict:
		return p.jsonObject(v, depth)
	case undefined:
		return v.err()
	}
	return valueErrorf("'%s' cannot be written as JSON", v.typeName())
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

func (p *printer) jsonString(s string) error {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\f':
			b.WriteString(`\f`)
		case '\b':
			b.WriteString(`\b`)
		default:
			if c < ' ' {
				fmt.Fprintf(&b, `\u%04x`, c)
			} else {
				b.WriteRune(c)
			}
		}
	}
	b.WriteByte('"')
	return p.add(b.String())
}

func (p *printer) jsonArray(items []Value, depth int) error {
	if err := p.add("["); err != nil {
		return err
	}
	for i, item := range items {
		if i > 0 {
			if err := p.add(", "); err != nil {
				return err
			}
		}
		if err := p.json(item, depth+1); err != nil {
			return err
		}
	}
	return p.add("]")
}

func (p *printer) jsonObject(d *Dict, depth int) error {
	return p.pairs(d,
		func(k Value) error { return p.jsonKey(k, depth) },
		func(v Value) error { return p.json(v, depth+1) })
}

// jsonKey writes a key; numbers, booleans and none become strings.
func (p *printer) jsonKey(k Value, depth int) error {
	switch k := k.(type) {
	case Str:
		return p.jsonString(string(k))
	case None, Bool, Int, bigInt, Float:
		if err := p.add(`"`); err != nil {
			return err
		}
		if err := p.json(k, depth); err != nil {
			return err
		}
		return p.add(`"`)
	}
	return valueErrorf("'%s' cannot be a key in JSON", k.typeName())
}
