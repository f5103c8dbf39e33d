package document

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Field reads one value into its place and reports what is wrong with it.
type Field func(Value)

// Key is a key of a map with a closed set of them.
type Key struct {
	Name     string
	Required bool
	Read     Field
}

// Must is a key that is required.
func Must(name string, read Field) Key { return Key{name, true, read} }

// May is a key that may be absent.
func May(name string, read Field) Key { return Key{name, false, read} }

// Keys reads a map that may hold these keys and no others.
func Keys(known ...Key) Field {
	return func(v Value) {
		if !v.Is(Map) {
			return
		}
		for _, e := range v.Entries {
			i := slices.IndexFunc(known, func(k Key) bool { return k.Name == e.Key })
			path := v.r.join(v.Path, e.Key)
			switch {
			case i >= 0:
				known[i].Read(v.child(e))
			case v.r.Unknown == nil || !v.r.Unknown(path, e.Key):
				v.r.Report(Problem{Path: path, Reason: unknownKey(e.Key, known), File: v.File, Line: e.Line})
			}
		}
		for _, k := range known {
			if k.Required && v.Get(k.Name) == nil {
				v.r.Report(Problem{v.r.join(v.Path, k.Name), "is missing", v.File, v.Line, v.Column})
			}
		}
	}
}

// unknownKey points to the key that was likely meant.
func unknownKey(name string, known []Key) string {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Name
	}
	slices.Sort(names)
	if likely := Nearest(name, names); likely != "" {
		return fmt.Sprintf("is an unknown key; did you mean %q?", likely)
	}
	return "is an unknown key; known are " + strings.Join(names, ", ")
}

// Entries reads a map whose keys are the author's own.
func Entries(read func(key string, v Value)) Field {
	return func(v Value) {
		if !v.Is(Map) {
			return
		}
		for _, e := range v.Entries {
			read(e.Key, v.child(e))
		}
	}
}

// Text takes any string.
func Text[T ~string](into *T) Field { return Checked(into, func(string) error { return nil }) }

// Checked takes a string that passes a test.
func Checked[T ~string](into *T, test func(string) error) Field {
	return func(v Value) {
		if !v.Is(String) {
			return
		}
		*into = T(v.Text)
		if err := test(v.Text); err != nil {
			v.Problem("%v", err)
		}
	}
}

// Filled takes a string that is not blank.
func Filled(into *string) Field {
	return Checked(into, func(s string) error {
		if strings.TrimSpace(s) == "" {
			return errors.New("is blank")
		}
		return nil
	})
}

// Like takes a string that a pattern describes.
func Like(pattern *regexp.Regexp) func(*string) Field {
	return func(into *string) Field {
		return Checked(into, func(s string) error {
			if !pattern.MatchString(s) {
				return fmt.Errorf("%q does not match %s", s, pattern)
			}
			return nil
		})
	}
}

// OneOf takes one of a closed set of strings.
func OneOf[T ~string](names ...T) func(*T) Field {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = string(name)
	}
	return func(into *T) Field {
		return Checked(into, func(s string) error {
			if !slices.Contains(words, s) {
				return fmt.Errorf("is %q, not one of %s", s, strings.Join(words, ", "))
			}
			return nil
		})
	}
}

// Duration takes a string such as 90s or 1h30m.
func Duration(into *time.Duration) Field {
	var written string
	return Checked(&written, func(s string) (err error) {
		if *into, err = time.ParseDuration(s); err != nil {
			return fmt.Errorf("is %q, not a duration such as 90s or 1h30m", s)
		}
		return nil
	})
}

// Flag takes a boolean.
func Flag(into *bool) Field {
	return func(v Value) {
		if v.Is(Bool) {
			*into = v.Text == "true"
		}
	}
}

// Int takes a whole number within bounds, also one written as 2.0.
func Int[T int | int64](least, most T) func(*T) Field {
	return func(into *T) Field {
		return func(v Value) {
			if v.Kind != Number && !v.Is(Integer) {
				return
			}
			i, whole := v.Int64()
			switch {
			case !whole && v.Kind == Number:
				v.Problem("is %s, not an integer", v.Text)
			case !whole && v.Float64() > 0, whole && i > int64(most):
				v.Problem("is %s, more than %d", v.Text, most)
			case !whole, i < int64(least):
				v.Problem("is %s, less than %d", v.Text, least)
			default:
				*into = T(i)
			}
		}
	}
}

// Float takes a number within bounds.
func Float(least, most float64) func(*float64) Field {
	return func(into *float64) Field {
		return func(v Value) {
			if !v.Is(Number) {
				return
			}
			switch f := v.Float64(); {
			case f < least:
				v.Problem("is %s, less than %v", v.Text, least)
			case f > most:
				v.Problem("is %s, more than %v", v.Text, most)
			default:
				*into = f
			}
		}
	}
}

// Ptr makes a place for a value that is present.
func Ptr[T any](into **T, item func(*T) Field) Field {
	return func(v Value) {
		*into = new(T)
		item(*into)(v)
	}
}

// ListOf takes a list. An empty one leaves into as it is.
func ListOf[T any](into *[]T, item func(*T) Field) Field {
	return func(v Value) {
		if !v.Is(List) || len(v.Items) == 0 {
			return
		}
		*into = make([]T, len(v.Items))
		for i := range v.Items {
			item(&(*into)[i])(v.Item(i))
		}
	}
}

// MinItems also refuses a list or a map that is too short.
func MinItems(least int, read Field) Field {
	return func(v Value) {
		read(v)
		if n := len(v.Items) + len(v.Entries); n < least && (v.Kind == List || v.Kind == Map) {
			v.Problem("has %d of at least %d", n, least)
		}
	}
}
