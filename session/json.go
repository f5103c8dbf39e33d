package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"
)

// Values is a map of JSON values. It encodes as {} when empty, its keys are
// sorted, and each value is compact JSON.
type Values map[string]json.RawMessage

// MarshalJSON writes {} for a nil map.
func (v Values) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("{}"), nil
	}
	return encode(map[string]json.RawMessage(v))
}

// Size returns how many bytes the keys and values have.
func (v Values) Size() int {
	size := 0
	for key, raw := range v {
		size += len(key) + len(raw)
	}
	return size
}

// Clone is a deep copy; a nil map gives an empty one.
func (v Values) Clone() Values {
	c := make(Values, len(v))
	for k, raw := range v {
		c[k] = bytes.Clone(raw)
	}
	return c
}

// String is the value at key when it is a JSON string, else "".
func (v Values) String(key string) string {
	var s string
	if json.Unmarshal(v[key], &s) != nil {
		return ""
	}
	return s
}

// Match reports whether all keys have these strings.
func (v Values) Match(want map[string]string) bool {
	for key, text := range want {
		// The raw form is looked at because JSON null decodes as "" too.
		var have string
		raw := v[key]
		if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &have) != nil || have != text {
			return false
		}
	}
	return true
}

// with is a copy of the map alone: the values are never changed in place.
func (v Values) with(key string, raw json.RawMessage) Values {
	c := maps.Clone(v)
	if c == nil {
		c = Values{}
	}
	c[key] = raw
	return c
}

func (v Values) without(key string) Values {
	if _, ok := v[key]; !ok {
		return v
	}
	c := maps.Clone(v)
	delete(c, key)
	return c
}

// JSON is any Go value as a session keeps it. It fails on what JSON cannot hold.
func JSON(v any) (json.RawMessage, error) {
	raw, err := encode(v)
	if err != nil {
		return nil, invalid("value", "%v", err)
	}
	return raw, nil
}

// CompactJSON is a copy of a JSON value in the one form a session keeps, or an
// InvalidError that names the field.
func CompactJSON(field string, raw json.RawMessage) (json.RawMessage, error) {
	return compact(field, raw)
}

// maxDepth is how deeply a value of foreign JSON may be nested. A value at
// the decoder's own limit could be taken in but never written out again,
// because it lies deeper inside a document than it did alone.
const maxDepth = 1000

// compact is a copy of raw in the one form a session keeps: no insignificant
// white space, and strings with no more escapes than JSON asks for, so that an
// encoder which escapes more changes nothing for good. Numbers, the order of
// keys and repeated keys stay as they came.
func compact(field string, raw json.RawMessage) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, invalid(field, "is not valid UTF-8")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, invalid(field, "is not JSON: %v", err)
	}
	data := b.Bytes()
	out := make([]byte, 0, len(data))
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end := stringEnd(data, i)
			out = appendUnescaped(out, data[i:end])
			i = end - 1
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth > maxDepth {
			return nil, invalid(field, "is nested deeper than %d levels", maxDepth)
		}
		out = append(out, data[i])
	}
	return out, nil
}

// stringEnd is the index after the string that begins at start of valid JSON.
func stringEnd(data []byte, start int) int {
	i := start + 1
	for data[i] != '"' {
		if data[i] == '\\' {
			i++
		}
		i++
	}
	return i + 1
}

// appendUnescaped adds a JSON string, escaping quotes, backslashes and control
// characters only. Half a surrogate pair becomes U+FFFD.
func appendUnescaped(out, quoted []byte) []byte {
	var text string
	if bytes.IndexByte(quoted, '\\') < 0 || json.Unmarshal(quoted, &text) != nil {
		return append(out, quoted...)
	}
	out = append(out, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// compactValues copies and checks a map of JSON values, each of at most most
// bytes where most is not 0; field prefixes errors.
func compactValues(field string, v Values, most int) (Values, error) {
	c := make(Values, len(v))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if err := checkKey(key); err != nil {
			return nil, invalid(field, "%s", reasonOf(err))
		}
		value, err := sized(field+"."+key, v[key], most)
		if err != nil {
			return nil, err
		}
		c[key] = value
	}
	return c, nil
}

// sized compacts a JSON value and refuses a large one; most 0 is no limit. A
// missing value is null.
func sized(field string, raw json.RawMessage, most int) (json.RawMessage, error) {
	if raw == nil {
		raw = json.RawMessage("null")
	}
	value, err := compact(field, raw)
	if err == nil && most > 0 && len(value) > most {
		return nil, invalid(field, "has %d bytes, at most %d are kept", len(value), most)
	}
	return value, err
}

// encode is the one JSON encoder of the package: no HTML escapes, no final newline.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeStrict reads one JSON value and refuses, by name, a field that is
// unknown, stands twice or differs in case.
func DecodeStrict(what string, data []byte, into any) error {
	if !utf8.Valid(data) {
		return invalid(what, "is not valid UTF-8")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return decodeProblemOf(what, data, err)
	}
	return checkKeys(what, data, reflect.TypeOf(into))
}

// decodeProblemOf is decodeProblem where the whole text is at hand: one that was
// cut off is said to be that, wherever in it the end came.
func decodeProblemOf(what string, data []byte, err error) error {
	var raw json.RawMessage
	if end := json.NewDecoder(bytes.NewReader(data)).Decode(&raw); errors.Is(end, io.EOF) || errors.Is(end, io.ErrUnexpectedEOF) {
		return invalid(what, "it ends too early: the rest of the JSON is missing")
	}
	return decodeProblem(what, err)
}

// decodeProblem turns a decoder's error into one that names the field.
func decodeProblem(what string, err error) error {
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNewerFormat) {
		return err
	}
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return invalid(what, "%v", err)
	}
	if typed.Field != "" {
		what += "." + typed.Field
	}
	return invalid(what, "a JSON %s stands where %s belongs", typed.Value, jsonName(typed.Type))
}

// jsonName is what a Go type is in JSON.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	}
	return "a number"
}
