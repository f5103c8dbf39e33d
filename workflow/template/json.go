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
	inner := func(v Value) error { return p.json(v, depth+1) }
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
		return p.items("[", v, "]", inner)
	case Tuple:
		return p.items("[", v, "]", inner)
	case *Dict:
		return p.pairs(v, p.jsonKey, inner)
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

// jsonEscaper escapes quotes, backslashes and control characters.
var jsonEscaper = func() *strings.Replacer {
	pairs := []string{`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, "\b", `\b`}
	for c := range ' ' {
		pairs = append(pairs, string(c), fmt.Sprintf(`\u%04x`, c)) // the first pair of a character counts
	}
	return strings.NewReplacer(pairs...)
}()

func (p *printer) jsonString(s string) error { return p.add(`"` + jsonEscaper.Replace(s) + `"`) }

// jsonKey writes a key; numbers, booleans and none become strings.
func (p *printer) jsonKey(k Value) error {
	switch k := k.(type) {
	case Str:
		return p.jsonString(string(k))
	case None, Bool, Int, bigInt, Float:
		return p.items(`"`, []Value{k}, `"`, func(v Value) error { return p.json(v, 0) })
	}
	return valueErrorf("'%s' cannot be a key in JSON", k.typeName())
}
