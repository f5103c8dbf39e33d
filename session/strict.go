package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// keys walks JSON beside the Go type it was decoded into. encoding/json takes
// a key that differs from a field's name in case only, and lets a later key
// overwrite an earlier one; a format that is for ever can afford neither.
type keys struct {
	data []byte // valid JSON
	at   int
	path []string
}

// field is one key a struct knows: its place in the struct and its type.
type field struct {
	name  string
	index int
	kind  reflect.Type
}

// checkKeys refuses unknown and repeated keys of the structs and maps that t
// is made of. Types that decode themselves look after their own.
func checkKeys(what string, data []byte, t reflect.Type) error {
	k := keys{data: data, path: []string{what}}
	return k.value(t)
}

func (k *keys) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c := k.next()
	if (c != '{' && c != '[') || reflect.PointerTo(t).Implements(decodesItself) {
		k.skip()
		return nil
	}
	switch {
	case c == '{' && t.Kind() == reflect.Struct:
		return k.object(fieldsOf(t))
	case c == '{' && t.Kind() == reflect.Map:
		return k.dictionary(t.Elem())
	case c == '[' && t.Kind() == reflect.Slice:
		return k.array(t.Elem())
	}
	k.skip()
	return nil
}

var decodesItself = reflect.TypeFor[json.Unmarshaler]()

func (k *keys) object(fields map[string]field) error {
	var seen uint64 // by the field's place; no struct here has more than 64
	k.at++
	for k.next() != '}' {
		name := k.name()
		f, ok := fields[string(name)]
		if !ok {
			return k.refuse(string(name), "unknown field; known are "+strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if seen&(1<<f.index) != 0 {
			return k.refuse(f.name, "stands twice")
		}
		seen |= 1 << f.index
		if err := k.inside(f.name, f.kind); err != nil {
			return err
		}
	}
	k.at++
	return nil
}

func (k *keys) dictionary(elem reflect.Type) error {
	seen := map[string]bool{}
	k.at++
	for k.next() != '}' {
		name := string(k.name())
		if seen[name] {
			return k.refuse(name, "stands twice")
		}
		seen[name] = true
		if err := k.inside(name, elem); err != nil {
			return err
		}
	}
	k.at++
	return nil
}

func (k *keys) inside(name string, t reflect.Type) error {
	k.path = append(k.path, name)
	err := k.value(t)
	k.path = k.path[:len(k.path)-1]
	return err
}

func (k *keys) refuse(name, reason string) error {
	return invalid(strings.Join(append(k.path, name), "."), "%s", reason)
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

// name is the next key, without its quotes.
func (k *keys) name() []byte {
	end := stringEnd(k.data, k.at)
	quoted := k.data[k.at:end]
	k.at = end
	var name string
	if bytes.IndexByte(quoted, '\\') < 0 || json.Unmarshal(quoted, &name) != nil {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(name)
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

// fieldsOf are the keys of a struct. They are found once for the types of the
// package.
func fieldsOf(t reflect.Type) map[string]field {
	if fields, ok := knownFields[t]; ok {
		return fields
	}
	return findFields(t)
}

func findFields(t reflect.Type) map[string]field {
	fields := map[string]field{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct && f.Tag == "" {
			for name, inner := range findFields(f.Type) {
				inner.index += t.NumField()
				fields[name] = inner
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && name != "" {
			fields[name] = field{name: name, index: i, kind: f.Type}
		}
	}
	return fields
}

var knownFields = func() map[reflect.Type]map[string]field {
	known := map[reflect.Type]map[string]field{}
	var learn func(t reflect.Type)
	learn = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			learn(t.Elem())
		case reflect.Struct:
			if _, ok := known[t]; ok {
				return
			}
			known[t] = findFields(t)
			for _, f := range known[t] {
				learn(f.kind)
			}
		}
	}
	for _, t := range []reflect.Type{
		reflect.TypeFor[document](), reflect.TypeFor[wireRecord](), reflect.TypeFor[plainInfo](), reflect.TypeFor[Definition](),
		reflect.TypeFor[State](), reflect.TypeFor[MessageAdded](), reflect.TypeFor[InferenceAnswered](), reflect.TypeFor[ToolStarted](),
		reflect.TypeFor[ToolFinished](), reflect.TypeFor[StepFinished](),
	} {
		learn(t)
	}
	return known
}()
