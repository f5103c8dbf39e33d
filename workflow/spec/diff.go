package spec

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/document"
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
func (s *Spec) tree() (*document.Node, error) {
	data, err := marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write spec: %w", err)
	}
	return document.Parse(data, document.Options{JSON: true})
}

func diff(p string, a, b *document.Node, found *[]string) {
	if a.Kind != b.Kind {
		*found = append(*found, p)
		return
	}
	switch a.Kind {
	case document.Map:
		diffEntries(p, a, b, found)
	case document.List:
		for i := range max(len(a.Items), len(b.Items)) {
			if i >= len(a.Items) || i >= len(b.Items) {
				*found = append(*found, document.Pointer(p, i))
				continue
			}
			diff(document.Pointer(p, i), a.Items[i], b.Items[i], found)
		}
	default:
		if a.Text != b.Text {
			*found = append(*found, p)
		}
	}
}

func diffEntries(p string, a, b *document.Node, found *[]string) {
	before := len(*found)
	for _, e := range a.Entries {
		if other := b.Get(e.Key); other != nil {
			diff(document.Pointer(p, e.Key), e.Value, other, found)
		} else {
			*found = append(*found, document.Pointer(p, e.Key))
		}
	}
	for _, e := range b.Entries {
		if a.Get(e.Key) == nil {
			*found = append(*found, document.Pointer(p, e.Key))
		}
	}
	sameName := func(x, y document.Entry) bool { return x.Key == y.Key }
	if len(*found) == before && !slices.EqualFunc(a.Entries, b.Entries, sameName) {
		*found = append(*found, p)
	}
}
