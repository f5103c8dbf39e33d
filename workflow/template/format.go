package template

import (
	"slices"
	"strconv"
	"strings"
)

// format implements Python's str.format.
func (r *run) format(text string, args arguments) (Value, error) {
	f := formatter{run: r, args: args}
	out, err := f.fill(text, 0)
	return Str(out), err
}

// formatter fills the fields of one format.
type formatter struct {
	run      *run
	args     arguments
	next     int // of the fields without a number
	numbered bool
}

// fill replaces the fields of text; those of a field's spec are one deep.
func (f *formatter) fill(text string, depth int) (string, error) {
	p := printer{meter: &f.run.meter}
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			return p.String() + text, p.grow(len(text))
		}
		if err := p.add(text[:i]); err != nil {
			return "", err
		}
		if strings.HasPrefix(text[i+1:], text[i:i+1]) {
			if err := p.add(text[i : i+1]); err != nil {
				return "", err
			}
			text = text[i+2:]
			continue
		}
		if text[i] == '}' {
			return "", valueErrorf("a format with a single '}'")
		}
		if depth > 1 {
			return "", valueErrorf("fields of a format are nested too deep")
		}
		end := fieldEnd(text[i+1:])
		if end < 0 {
			return "", valueErrorf("a format with a '{' that is not closed")
		}
		value, err := f.field(text[i+1:i+1+end], depth)
		if err != nil {
			return "", err
		}
		if err := p.add(value); err != nil {
			return "", err
		}
		text = text[i+2+end:]
	}
	return p.String(), nil
}

// fieldEnd finds the brace that closes a field.
func fieldEnd(text string) int {
	open := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			open++
		case '}':
			if open == 0 {
				return i
			}
			open--
		}
	}
	return -1
}

// field fills name!conversion:spec.
func (f *formatter) field(text string, depth int) (string, error) {
	name, spec, _ := cutOutside(text, ':')
	name, conversion, converted := cutOutside(name, '!')
	v, err := f.value(name)
	if err != nil {
		return "", err
	}
	if converted {
		if v, err = f.convert(v, conversion); err != nil {
			return "", err
		}
	}
	if spec, err = f.fill(spec, depth+1); err != nil {
		return "", err
	}
	return f.run.formatValue(v, spec)
}

// cutOutside cuts text at the first mark that is not in brackets.
func cutOutside(text string, mark byte) (before, after string, found bool) {
	inside := false
	for i := range len(text) {
		switch {
		case text[i] == '[':
			inside = true
		case text[i] == ']':
			inside = false
		case text[i] == mark && !inside:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

func (f *formatter) convert(v Value, conversion string) (Value, error) {
	p := printer{meter: &f.run.meter}
	switch conversion {
	case "s":
		err := p.str(v)
		return Str(p.String()), err
	case "r":
		err := p.repr(v, 0)
		return Str(p.String()), err
	case "a":
		err := p.repr(v, 0)
		return Str(asciiOnly(p.String())), err
	}
	return nil, valueErrorf("unknown conversion %q in a format", conversion)
}

func asciiOnly(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c < 0x80 {
			b.WriteRune(c)
		} else {
			b.WriteString(asciiEscape(c))
		}
	}
	return b.String()
}

// value finds the argument of a field, and looks into it by .name and [key].
func (f *formatter) value(name string) (Value, error) {
	first := name
	if i := strings.IndexAny(name, ".["); i >= 0 {
		first = name[:i]
	}
	v, err := f.argument(first)
	if err != nil {
		return nil, err
	}
	for rest := name[len(first):]; rest != ""; {
		if rest[0] == '.' {
			// Nothing a template can reach has attributes here.
			return nil, valueErrorf("a format cannot look at attributes: %s", name)
		}
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 2 {
			return nil, valueErrorf("bad field %q in a format", name)
		}
		key := Value(Str(rest[1:end]))
		if n, err := strconv.Atoi(rest[1:end]); err == nil && n >= 0 {
			key = Int(n)
		}
		item, ok, err := f.run.item(v, key)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, failf(KindUndefined, "%s of a format is not defined", name)
		}
		v, rest = item, rest[end+1:]
	}
	return v, nil
}

func (f *formatter) argument(name string) (Value, error) {
	index, err := strconv.Atoi(name)
	switch {
	case name == "":
		if f.numbered {
			return nil, valueErrorf("a format numbers some of its fields only")
		}
		index = f.next
		f.next++
	case err == nil && isDigit(name[0]):
		if f.next > 0 {
			return nil, valueErrorf("a format numbers some of its fields only")
		}
		f.numbered = true
	default:
		i := slices.Index(f.args.names, name)
		if i < 0 {
			return nil, valueErrorf("the format has no argument %s", name)
		}
		return f.args.named[i], nil
	}
	if index >= len(f.args.positional) {
		return nil, valueErrorf("the format has no argument %d", index)
	}
	return f.args.positional[index], nil
}
