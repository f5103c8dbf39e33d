package spec

import (
	"fmt"
	"slices"
)

// Diff lists the JSON pointers under which two specs differ, each as deep as
// it goes, in the order of the old one and then of what is new. A mapping with
// the same names in another order differs as a whole, for order shows. Load
// both with the same variables.
func Diff(older, newer *Spec) ([]string, error) {
	a, err := older.tree()
	if err != nil {
		return nil, err
	}
	b, err := newer.tree()
	if err != nil {
		return nil, err
	}
	var found []string
	diff("", a, b, &found)
	return found, nil
}

// tree is a spec as its own JSON is read.
func (s *Spec) tree() (*node, error) {
	data, err := marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write spec: %w", err)
	}
	return parseJSON("", data)
}

func diff(p string, a, b *node, found *[]string) {
	if a.kind != b.kind {
		*found = append(*found, p)
		return
	}
	switch a.kind {
	case object:
		diffEntries(p, a, b, found)
	case list:
		for i := range max(len(a.items), len(b.items)) {
			if i >= len(a.items) || i >= len(b.items) {
				*found = append(*found, child(p, i))
				continue
			}
			diff(child(p, i), a.items[i], b.items[i], found)
		}
	default:
		if a.text != b.text || a.yes != b.yes || a.integer != b.integer || a.float != b.float {
			*found = append(*found, p)
		}
	}
}

func diffEntries(p string, a, b *node, found *[]string) {
	before := len(*found)
	for _, e := range a.entries {
		if other := b.get(e.key); other != nil {
			diff(child(p, e.key), e.value, other, found)
		} else {
			*found = append(*found, child(p, e.key))
		}
	}
	for _, e := range b.entries {
		if a.get(e.key) == nil {
			*found = append(*found, child(p, e.key))
		}
	}
	sameName := func(x, y entry) bool { return x.key == y.key }
	if len(*found) == before && !slices.EqualFunc(a.entries, b.entries, sameName) {
		*found = append(*found, p)
	}
}
