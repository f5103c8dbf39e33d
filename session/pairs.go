package session

import (
	"encoding/json"
	"iter"
	"slices"
)

// Pairs is a map that keeps the order in which its keys first came. It is a
// value: With and Without return another one and leave this one as it is. Its
// JSON is [[key,value],…]; of a key that stands twice the last value counts.
type Pairs[V any] struct{ list []pair[V] }

type pair[V any] struct {
	key   string
	value V
}

// MarshalJSON writes the pair as a list of two.
func (p pair[V]) MarshalJSON() ([]byte, error) { return encode([]any{p.key, p.value}) }

// UnmarshalJSON reads a list of two.
func (p *pair[V]) UnmarshalJSON(data []byte) error {
	var both []json.RawMessage
	if err := json.Unmarshal(data, &both); err != nil {
		return decodeProblem("pair", err)
	}
	if len(both) != 2 {
		return invalid("pair", "has %d parts, not a key and a value", len(both))
	}
	var key *string
	if err := json.Unmarshal(both[0], &key); err != nil {
		return decodeProblem("key", err)
	}
	if key == nil {
		return invalid("key", "is null")
	}
	p.key = *key
	if err := json.Unmarshal(both[1], &p.value); err != nil {
		return decodeProblem("value", err)
	}
	return nil
}

// Get is the value at key.
func (p Pairs[V]) Get(key string) (V, bool) {
	if i := p.index(key); i >= 0 {
		return p.list[i].value, true
	}
	var none V
	return none, false
}

func (p Pairs[V]) index(key string) int {
	return slices.IndexFunc(p.list, func(e pair[V]) bool { return e.key == key })
}

// With has v at key: in the key's place, or at the end where it is new.
func (p Pairs[V]) With(key string, v V) Pairs[V] {
	list := slices.Clone(p.list)
	if i := p.index(key); i >= 0 {
		list[i].value = v
	} else {
		list = append(list, pair[V]{key, v})
	}
	return Pairs[V]{list}
}

// Without has no key.
func (p Pairs[V]) Without(key string) Pairs[V] {
	i := p.index(key)
	switch {
	case i < 0:
		return p
	case len(p.list) == 1:
		return Pairs[V]{}
	}
	return Pairs[V]{slices.Delete(slices.Clone(p.list), i, i+1)}
}

// Len counts the keys.
func (p Pairs[V]) Len() int { return len(p.list) }

// All goes over keys and values in order.
func (p Pairs[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, e := range p.list {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Clone is a copy. Values that refer to something still share it.
func (p Pairs[V]) Clone() Pairs[V] { return Pairs[V]{slices.Clone(p.list)} }

// MarshalJSON writes [] for no pairs.
func (p Pairs[V]) MarshalJSON() ([]byte, error) {
	if p.list == nil {
		return []byte("[]"), nil
	}
	return encode(p.list)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Pairs[V]) UnmarshalJSON(data []byte) error {
	var list []pair[V]
	if err := json.Unmarshal(data, &list); err != nil {
		return decodeProblem("pairs", err)
	}
	place := make(map[string]int, len(list))
	var kept []pair[V]
	for _, e := range list {
		if i, ok := place[e.key]; ok {
			kept[i].value = e.value
			continue
		}
		place[e.key] = len(kept)
		kept = append(kept, e)
	}
	p.list = kept
	return nil
}

// Set is a list of distinct texts in the order in which they first came. It
// is a value: With and Without return another one. Its JSON is a list.
type Set []string

// NewSet keeps the first of equal texts.
func NewSet(texts ...string) Set {
	var s Set
	seen := make(map[string]bool, len(texts))
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			s = append(s, text)
		}
	}
	return s
}

// Has reports whether text is in the set.
func (s Set) Has(text string) bool { return slices.Contains(s, text) }

// With has text, at the end where it is new.
func (s Set) With(text string) Set {
	if s.Has(text) {
		return s
	}
	return append(slices.Clip(s), text)
}

// Without does not have text.
func (s Set) Without(text string) Set {
	i := slices.Index(s, text)
	switch {
	case i < 0:
		return s
	case len(s) == 1:
		return nil
	}
	return slices.Delete(slices.Clone(s), i, i+1)
}

// MarshalJSON writes [] for an empty set.
func (s Set) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("[]"), nil
	}
	return encode([]string(s))
}

// UnmarshalJSON reads a list and keeps the first of equal texts.
func (s *Set) UnmarshalJSON(data []byte) error {
	var texts []string
	if err := json.Unmarshal(data, &texts); err != nil {
		return decodeProblem("set", err)
	}
	*s = NewSet(texts...)
	return nil
}
