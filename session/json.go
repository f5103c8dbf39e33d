package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strings"
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

// compact is a copy of raw without insignificant white space.
func compact(field string, raw json.RawMessage) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, invalid(field, "is not valid UTF-8")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, invalid(field, "is not JSON: %v", err)
	}
	return b.Bytes(), nil
}

// compactValues copies and checks a map of JSON values; field prefixes errors.
func compactValues(field string, v Values) (Values, error) {
	c := make(Values, len(v))
	for key, raw := range v {
		if err := checkKey(key); err != nil {
			return nil, invalid(field, "key %s: %v", quoted(key), err)
		}
		value, err := compact(field+"."+key, raw)
		if err != nil {
			return nil, err
		}
		c[key] = value
	}
	return c, nil
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

// decodeStrict reads one JSON value and refuses unknown fields by name.
func decodeStrict(what string, data []byte, into any) error {
	if !utf8.Valid(data) {
		return invalid(what, "is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return decodeProblem(what, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalid(what, "has more than one JSON value")
	}
	return nil
}

// decodeProblem turns a decoder's error into one that names the field.
func decodeProblem(what string, err error) error {
	var own *InvalidError
	var newer *NewerFormatError
	if errors.As(err, &own) || errors.As(err, &newer) {
		return err
	}
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return invalid(what+"."+typed.Field, "a JSON %s stands where a %s belongs", typed.Value, typed.Type)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return invalid(what+"."+strings.Trim(name, `"`), "unknown field")
	}
	return invalid(what, "%v", err)
}
