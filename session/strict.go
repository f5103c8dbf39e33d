package session

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// keys walks JSON beside the Go type it was decoded into. encoding/json takes
// a key that differs from a field's name in case only, and lets a later key
// overwrite an earlier one; a format that is for ever can afford neither.
type keys struct {
	data   []byte // valid JSON
	at     int
	path   []string
	fields map[reflect.Type]map[string]reflect.Type
}

// checkKeys refuses unknown and repeated keys of the structs and maps that t
// is made of. Types that decode themselves look after their own.
func checkKeys(what string, data []byte, t reflect.Type) error {
	k := keys{data: data, path: []string{what}, fields: map[reflect.Type]map[string]reflect.Type{}}
	return k.value(t)
}

func (k *keys) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	opaque := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch c := k.next(); {
	case c == '{' && !opaque && t.Kind() == reflect.Struct:
		fields := k.fieldsOf(t)
		return k.object(func(name string) (reflect.Type, bool) {
			field, ok := fields[name]
			return field, ok
		})
	case c == '{' && !opaque && t.Kind() == reflect.Map:
		return k.object(func(string) (reflect.Type, bool) { return t.Elem(), true })
	case c == '[' && !opaque && t.Kind() == reflect.Slice:
		return k.array(t.Elem())
	}
	k.skip()
	return nil
}

func (k *keys) object(typeOf func(name string) (reflect.Type, bool)) error {
	seen := map[string]bool{}
	k.at++
	for k.next() != '}' {
		name := k.name()
		k.path = append(k.path, name)
		t, ok := typeOf(name)
		switch {
		case !ok:
			return invalid(strings.Join(k.path, "."), "unknown field")
		case seen[name]:
			return invalid(strings.Join(k.path, "."), "stands twice")
		}
		seen[name] = true
		if err := k.value(t); err != nil {
			return err
		}
		k.path = k.path[:len(k.path)-1]
	}
	k.at++
	return nil
}

func (k *keys) array(elem reflect.Type) error {
	k.at++
	for k.next() != ']' {
		if err := k.value(elem); err != nil {
			return err
		}
	}
	k.at++
	return nil
}

// next is the first byte of the next token; the punctuation between tokens
// says nothing that the decoder has not checked.
func (k *keys) next() byte {
	for strings.IndexByte(" \t\r\n,:", k.data[k.at]) >= 0 {
		k.at++
	}
	return k.data[k.at]
}

func (k *keys) name() string {
	end := stringEnd(k.data, k.at)
	quoted := k.data[k.at:end]
	k.at = end
	var name string
	if bytes.IndexByte(quoted, '\\') < 0 || json.Unmarshal(quoted, &name) != nil {
		return string(quoted[1 : len(quoted)-1])
	}
	return name
}

// skip passes over one value, whatever it holds.
func (k *keys) skip() {
	for depth := 0; k.at < len(k.data); {
		switch k.data[k.at] {
		case '"':
			k.at = stringEnd(k.data, k.at)
		case '{', '[':
			depth++
			k.at++
		case '}', ']':
			if depth == 0 {
				return // the end of a number or word, and of what holds it
			}
			depth--
			k.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return
			}
			k.at++
			continue
		default:
			k.at++
			continue
		}
		if depth == 0 {
			return
		}
	}
}

// fieldsOf are the JSON names of a struct's fields and their types.
func (k *keys) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if fields, ok := k.fields[t]; ok {
		return fields
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && name != "" {
			fields[name] = f.Type
		}
	}
	k.fields[t] = fields
	return fields
}
