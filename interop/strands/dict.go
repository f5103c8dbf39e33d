package strands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

// Dict is a map that remembers the order in which its keys were set, as
// Python's does. The zero value is empty. A Dict is a value: setting a key in a
// copy leaves the other as it is.
type Dict[V any] struct{ entries []entry[V] }

type entry[V any] struct {
	key   string
	value V
}

// Object is a JSON object with all its keys, in order.
type Object = Dict[json.RawMessage]

// Len returns the number of keys.
func (d Dict[V]) Len() int { return len(d.entries) }

// Get returns the value of a key, and whether there is one.
func (d Dict[V]) Get(key string) (V, bool) {
	if i := d.index(key); i >= 0 {
		return d.entries[i].value, true
	}
	var none V
	return none, false
}

// All goes through keys and values in order.
func (d Dict[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, e := range d.entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Set gives a key a value. A new key goes to the end.
func (d *Dict[V]) Set(key string, value V) {
	entries := slices.Clone(d.entries)
	if i := d.index(key); i >= 0 {
		entries[i].value = value
	} else {
		entries = append(entries, entry[V]{key, value})
	}
	d.entries = entries
}

// Delete removes a key; a missing one is no error.
func (d *Dict[V]) Delete(key string) {
	i := d.index(key)
	if i < 0 {
		return
	}
	d.entries = slices.Delete(slices.Clone(d.entries), i, i+1)
	if len(d.entries) == 0 {
		d.entries = nil
	}
}

func (d Dict[V]) index(key string) int {
	return slices.IndexFunc(d.entries, func(e entry[V]) bool { return e.key == key })
}

// MarshalJSON writes an object with the keys in order.
func (d Dict[V]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range d.entries {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := session.JSON(e.key)
		if err != nil {
			return nil, err
		}
		value, err := session.JSON(e.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object. Of a key that stands twice the last value
// counts, in the place of the first, as in Python. Null is empty.
func (d *Dict[V]) UnmarshalJSON(data []byte) error {
	d.entries = nil
	dec := json.NewDecoder(bytes.NewReader(data))
	start, err := dec.Token()
	if err != nil {
		return err
	}
	if start == nil {
		return nil
	}
	if start != json.Delim('{') {
		return &session.InvalidError{Field: "value", Reason: "is not an object"}
	}
	places := map[string]int{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key := fmt.Sprint(token) // a decoder gives nothing but a string here
		var value V
		if err := dec.Decode(&value); err != nil {
			return inField(key, err)
		}
		if i, twice := places[key]; twice {
			d.entries[i].value = value
			continue
		}
		places[key] = len(d.entries)
		d.entries = append(d.entries, entry[V]{key, value})
	}
	_, err = dec.Token()
	return err
}
