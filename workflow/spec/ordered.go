package spec

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Map is a mapping that keeps the order it was written in: inputs, routes,
// branches and nodes show in prompts in that order. The zero value is empty.
type Map[V any] []Entry[V]

// Entry is one name of a Map and what it stands for.
type Entry[V any] struct {
	Name  string
	Value V
}

// Get finds a name.
func (m Map[V]) Get(name string) (V, bool) {
	i := m.index(name)
	if i < 0 {
		var none V
		return none, false
	}
	return m[i].Value, true
}

// Has says whether a name is there.
func (m Map[V]) Has(name string) bool { return m.index(name) >= 0 }

// Names are the names in their order.
func (m Map[V]) Names() []string {
	names := make([]string, len(m))
	for i, e := range m {
		names[i] = e.Name
	}
	return names
}

// With is a copy in which name stands for value: in its old place where it has
// one, else at the end.
func (m Map[V]) With(name string, value V) Map[V] {
	m = slices.Clone(m)
	if i := m.index(name); i >= 0 {
		m[i].Value = value
		return m
	}
	return append(m, Entry[V]{name, value})
}

func (m Map[V]) index(name string) int {
	return slices.IndexFunc(m, func(e Entry[V]) bool { return e.Name == name })
}

// MarshalJSON writes an object with the names in their order. A float keeps
// its point, so that it is read back as one.
func (m Map[V]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeJSON(&b, e.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := writeJSON(&b, e.Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// writeJSON differs from json.Marshal in two things: a float stays a float,
// and text is not escaped for web pages.
func writeJSON(b *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case float64:
		b.WriteString(floatText(v))
		return nil
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
	return nil
}

// floatText is a float that no reader takes for an integer.
func floatText(f float64) string {
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e16) {
		format = 'e'
	}
	text := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	err := writeJSON(&b, value)
	return b.Bytes(), err
}
