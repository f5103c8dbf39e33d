package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// kind is what a node is. Its text is how an error says it.
type kind string

const (
	null    kind = "empty"
	boolean kind = "a boolean"
	integer kind = "an integer"
	float   kind = "a number"
	text    kind = "a string"
	list    kind = "a list"
	object  kind = "a mapping"
)

// node is a value of a file: what JSON can hold, with its place and every key
// in its order.
type node struct {
	kind    kind
	file    string // as written in the spec; empty: the spec itself
	line    int
	text    string
	yes     bool
	integer int64
	float   float64
	items   []*node
	entries []entry
}

type entry struct {
	key   string
	line  int
	value *node
}

const (
	maxDepth = 64
	// maxNodes bounds what aliases may expand to.
	maxNodes = 100_000
)

func errDepth() error { return fmt.Errorf("nests deeper than %d levels", maxDepth) }

func errNodes() error {
	return fmt.Errorf("has more than %d values once its aliases are written out", maxNodes)
}

func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// value is the node as templates take it: nil, bool, int64, float64, string,
// []any or Map[any].
func (n *node) value() any {
	switch n.kind {
	case boolean:
		return n.yes
	case integer:
		return n.integer
	case float:
		return n.float
	case text:
		return n.text
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.value()
		}
		return items
	case object:
		m := make(Map[any], len(n.entries))
		for i, e := range n.entries {
			m[i] = Entry[any]{e.key, e.value.value()}
		}
		return m
	}
	return nil
}

// place is where a node stands, for the end of a reason.
func (n *node) place() string { return placeOf(n.file, n.line) }

func placeOf(file string, line int) string {
	switch {
	case line == 0:
		return ""
	case file != "":
		return fmt.Sprintf(" (%s, line %d)", file, line)
	}
	return fmt.Sprintf(" (line %d)", line)
}

// setNumber reads a number whose kind is known.
func (n *node) setNumber(k kind, written string, base int) error {
	n.kind = k
	var err error
	if k == integer {
		n.integer, err = strconv.ParseInt(written, base, 64)
	} else {
		n.float, err = strconv.ParseFloat(written, 64)
	}
	if err != nil {
		return fmt.Errorf("has a number that is too large; quote it if it is a text%s", n.place())
	}
	return nil
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// child is the JSON pointer of a key or an index under p.
func child[K string | int](p string, key K) string {
	return p + "/" + pointerEscapes.Replace(fmt.Sprint(key))
}
