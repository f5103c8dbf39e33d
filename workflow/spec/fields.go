package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// str takes any string.
func str(into *string) field {
	return func(r *reader, p string, n *node) {
		if r.is(p, n, text) {
			*into = n.text
		}
	}
}

// filled takes a string that is not blank.
func filled(into *string) field {
	return func(r *reader, p string, n *node) {
		if !r.is(p, n, text) {
			return
		}
		if *into = n.text; strings.TrimSpace(n.text) == "" {
			r.problem(p, n, "is blank")
		}
	}
}

// like takes a string that a pattern describes.
func like(pattern *regexp.Regexp) func(*string) field {
	return func(into *string) field {
		return func(r *reader, p string, n *node) {
			if !r.is(p, n, text) {
				return
			}
			if *into = n.text; !pattern.MatchString(n.text) {
				r.problem(p, n, "%q does not match %s", n.text, pattern)
			}
		}
	}
}

// oneOf takes one of a closed set of strings.
func oneOf[T ~string](names ...T) func(*T) field {
	return func(into *T) field {
		return func(r *reader, p string, n *node) {
			if !r.is(p, n, text) {
				return
			}
			if *into = T(n.text); !slices.Contains(names, *into) {
				r.problem(p, n, "is %q, not one of %s", n.text, joined(names))
			}
		}
	}
}

func joined[T ~string](names []T) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = string(name)
	}
	return strings.Join(words, ", ")
}

func flag(into *bool) field {
	return func(r *reader, p string, n *node) {
		if r.is(p, n, boolean) {
			*into = n.yes
		}
	}
}

// atLeast takes an integer, also one written as 2.0.
func atLeast(least int) func(*int) field { return within(least, 1<<53) }

func within(least, most int) func(*int) field {
	return func(into *int) field {
		return func(r *reader, p string, n *node) {
			value, whole := n.integer, n.kind == integer
			if n.kind == float && n.float == float64(int64(n.float)) {
				value, whole = int64(n.float), true
			}
			switch {
			case !whole:
				r.is(p, n, integer)
			case value < int64(least):
				r.problem(p, n, "is %d, less than %d", value, least)
			case value > int64(most):
				r.problem(p, n, "is %d, more than %d", value, most)
			default:
				*into = int(value)
			}
		}
	}
}

// upTo takes a number from 0 on.
func upTo(most float64) func(*float64) field {
	return func(into *float64) field {
		return func(r *reader, p string, n *node) {
			if !r.is(p, n, float) {
				return
			}
			value := n.float
			if n.kind == integer {
				value = float64(n.integer)
			}
			switch {
			case value < 0:
				r.problem(p, n, "is %s, less than 0", short(value))
			case value > most:
				r.problem(p, n, "is %s, more than %s", short(value), short(most))
			default:
				*into = value
			}
		}
	}
}

func short(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// ptr makes a place for a value that is there.
func ptr[T any](into **T, item func(*T) field) field {
	return func(r *reader, p string, n *node) {
		*into = new(T)
		item(*into)(r, p, n)
	}
}

// listOf takes a list. An empty one is the same as none.
func listOf[T any](into *[]T, item func(*T) field) field {
	return func(r *reader, p string, n *node) {
		if !r.is(p, n, list) || len(n.items) == 0 {
			return
		}
		*into = make([]T, len(n.items))
		for i, value := range n.items {
			item(&(*into)[i])(r, child(p, i), value)
		}
	}
}

// some takes a list of so many at least.
func some[T any](least int, into *[]T, item func(*T) field) field {
	return func(r *reader, p string, n *node) {
		listOf(into, item)(r, p, n)
		if n.kind == list && len(n.items) < least {
			r.problem(p, n, "has %d of at least %d", len(n.items), least)
		}
	}
}

// kept takes a list of strings; an empty one is not the same as none.
func kept(into *[]string) field {
	return func(r *reader, p string, n *node) {
		*into = []string{}
		listOf(into, filled)(r, p, n)
	}
}

// unique takes a list of strings that are all different.
func unique(into *[]string, item func(*string) field) field {
	return func(r *reader, p string, n *node) {
		listOf(into, item)(r, p, n)
		for i, name := range *into {
			if name != "" && slices.Index(*into, name) < i {
				r.problem(child(p, i), n.items[i], "%q is there twice", name)
			}
		}
	}
}

// mapOf takes a mapping with names of the author's own.
func mapOf[T any](into *Map[T], item func(*T) field) field {
	return func(r *reader, p string, n *node) {
		if !r.is(p, n, object) || len(n.entries) == 0 {
			return
		}
		*into = make(Map[T], len(n.entries))
		for i, e := range n.entries {
			at := child(p, e.key)
			if strings.TrimSpace(e.key) == "" {
				r.problemAt(at, n.file, e.line, "has a blank name")
			}
			(*into)[i].Name = e.key
			item(&(*into)[i].Value)(r, at, e.value)
		}
	}
}

// someOf takes a mapping with one entry at least.
func someOf[T any](into *Map[T], item func(*T) field) field {
	return func(r *reader, p string, n *node) {
		mapOf(into, item)(r, p, n)
		if n.kind == object && len(n.entries) == 0 {
			r.problem(p, n, "has 0 of at least 1")
		}
	}
}

// scalar takes a string, a number or a boolean.
func scalar(into *any) field {
	return func(r *reader, p string, n *node) {
		switch n.kind {
		case text, integer, float, boolean:
			*into = n.value()
		default:
			r.problem(p, n, "is %s, not a string, number or boolean", n.kind)
		}
	}
}

// anything takes every value but an empty one.
func anything(into *any) field {
	return func(r *reader, p string, n *node) {
		if n.kind == null {
			r.problem(p, n, "is empty; leave the key out or give it a value")
		}
		*into = n.value()
	}
}

// versionField takes an integer or a string.
func versionField(into *any) field {
	return func(r *reader, p string, n *node) {
		if n.kind != integer && n.kind != text {
			r.problem(p, n, "is %s, not an integer or a string", n.kind)
		}
		*into = n.value()
	}
}

// schemaField takes the path of a JSON Schema or the schema itself.
func schemaField(into *Schema) field {
	return func(r *reader, p string, n *node) {
		switch n.kind {
		case text:
			filled(&into.Path)(r, p, n)
		case object:
			into.Object, _ = n.value().(Map[any])
		default:
			r.problem(p, n, "is %s, not a path or a schema", n.kind)
		}
	}
}

// varField takes the declaration of an input, or just its type.
func varField(into *Var) field {
	return func(r *reader, p string, n *node) {
		kinds := oneOf("string", "number", "integer", "boolean", "array", "object")
		if n.kind == text {
			kinds(&into.Type)(r, p, n)
			return
		}
		keys(
			must("type", kinds(&into.Type)),
			may("description", str(&into.Description)),
			may("default", anything(&into.Default)),
			may("enum", func(r *reader, p string, n *node) {
				if r.is(p, n, list) {
					into.Enum, _ = n.value().([]any)
				}
			}),
		)(r, p, n)
	}
}

func examplesField(into *Examples) field {
	return func(r *reader, p string, n *node) {
		if r.is(p, n, list) && len(n.items) > 0 {
			values, _ := n.value().([]any)
			*into = values
		}
	}
}

// pythonField takes a tool's name, bare or as callable.
func pythonField(into *string) field {
	return func(r *reader, p string, n *node) {
		if n.kind == object {
			keys(must("callable", filled(into)))(r, p, n)
			return
		}
		filled(into)(r, p, n)
	}
}

// checked takes a string that passes a test of its own.
func checked(test func(string) error) func(*string) field {
	return func(into *string) field {
		return func(r *reader, p string, n *node) {
			if !r.is(p, n, text) {
				return
			}
			*into = n.text
			if err := test(n.text); err != nil {
				r.problem(p, n, "%s", fmt.Sprint(err))
			}
		}
	}
}
