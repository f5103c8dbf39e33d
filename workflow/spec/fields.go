package spec

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
)

// The rules of a spec stand in code and not in a JSON Schema: so every
// violation has the pointer of the value, a reason a person can act on, and
// its line.
type (
	field = document.Field
	value = document.Value
)

var (
	keys   = document.Keys
	must   = document.Must
	may    = document.May
	str    = document.Text[string]
	filled = document.Filled
)

func atLeast(least int) func(*int) field { return document.Int(least, 1<<53) }

// upTo takes a number from 0 on.
func upTo(most float64) func(*float64) field { return document.Float(0, most) }

// valueOf is a node as templates take it: nil, bool, int64, float64, string,
// []any or Map[any].
func valueOf(n *document.Node) any {
	switch n.Kind {
	case document.Bool:
		return n.Text == "true"
	case document.Integer:
		i, _ := n.Int64()
		return i
	case document.Number:
		return n.Float64()
	case document.String:
		return n.Text
	case document.List:
		return itemsOf(n)
	case document.Map:
		return entriesOf(n)
	}
	return nil
}

func itemsOf(n *document.Node) []any {
	items := make([]any, len(n.Items))
	for i, item := range n.Items {
		items[i] = valueOf(item)
	}
	return items
}

func entriesOf(n *document.Node) Map[any] {
	m := make(Map[any], len(n.Entries))
	for i, e := range n.Entries {
		m[i] = Entry[any]{e.Key, valueOf(e.Value)}
	}
	return m
}

// kept takes a list of strings; an empty one is not the same as none.
func kept(into *[]string) field {
	return func(v value) {
		*into = []string{}
		document.ListOf(into, filled)(v)
	}
}

// unique takes a list of strings that are all different.
func unique(into *[]string, item func(*string) field) field {
	return func(v value) {
		document.ListOf(into, item)(v)
		seen := map[string]bool{}
		for i, name := range *into {
			if name != "" && seen[name] {
				v.Item(i).Problem("%q is there twice", name)
			}
			seen[name] = true
		}
	}
}

// mapOf takes a map with names of the author's own.
func mapOf[T any](into *Map[T], item func(*T) field) field {
	return document.Entries(func(name string, v value) {
		if strings.TrimSpace(name) == "" {
			v.Problem("has a blank name")
		}
		*into = append(*into, Entry[T]{Name: name})
		item(&(*into)[len(*into)-1].Value)(v)
	})
}

// someOf takes a map with one entry at least.
func someOf[T any](into *Map[T], item func(*T) field) field {
	return document.MinItems(1, mapOf(into, item))
}

// some takes a list of so many at least.
func some[T any](least int, into *[]T, item func(*T) field) field {
	return document.MinItems(least, document.ListOf(into, item))
}

// oneKindOf takes a value of one of several kinds; words are how a problem names them.
func oneKindOf(into *any, words string, kinds ...document.Kind) field {
	return func(v value) {
		if *into = valueOf(v.Node); !slices.Contains(kinds, v.Kind) {
			v.Problem("is %s, not %s", v.Kind, words)
		}
	}
}

func scalar(into *any) field {
	return oneKindOf(into, "a string, number or boolean", document.String, document.Integer, document.Number, document.Bool)
}

// anything takes every value but null.
func anything(into *any) field {
	return func(v value) {
		if v.Kind == document.Null {
			v.Problem("is null; leave the key out or give it a value")
		}
		*into = valueOf(v.Node)
	}
}

// schemaField takes the path of a JSON Schema or the schema itself.
func schemaField(into *Schema) field {
	return func(v value) {
		switch v.Kind {
		case document.String:
			filled(&into.Path)(v)
		case document.Map:
			into.Object = entriesOf(v.Node)
		default:
			v.Problem("is %s, not a path or a schema", v.Kind)
		}
	}
}

// varField takes the declaration of an input, or just its type.
func varField(into *Var) field {
	return func(v value) {
		kinds := document.OneOf("string", "number", "integer", "boolean", "array", "object")
		if v.Kind == document.String {
			kinds(&into.Type)(v)
			return
		}
		keys(
			must("type", kinds(&into.Type)),
			may("description", str(&into.Description)),
			may("default", anything(&into.Default)),
			may("enum", func(v value) {
				if v.Is(document.List) {
					into.Enum = itemsOf(v.Node)
				}
			}),
		)(v)
	}
}

func examplesField(into *Examples) field {
	return func(v value) {
		if v.Is(document.List) && len(v.Items) > 0 {
			*into = itemsOf(v.Node)
		}
	}
}

// pythonField takes a tool's name, bare or as callable.
func pythonField(into *string) field {
	return func(v value) {
		if v.Kind == document.Map {
			keys(must("callable", filled(into)))(v)
			return
		}
		filled(into)(v)
	}
}
