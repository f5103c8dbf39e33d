package instructor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// value is a path in the file and its content. PHP does not distinguish empty
// maps from empty lists, and not always lists from maps: the methods here accept
// both.
type value struct {
	im   *importer
	path string
	v    any // as encoding/json gives it, with json.Number; nil when missing
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "an object"
}

// at returns the value under a key; an empty value if there is none.
func (p value) at(key string) value {
	inner := value{im: p.im, path: key}
	if p.path != "" {
		inner.path = p.path + "." + key
	}
	if m, ok := p.v.(map[string]any); ok {
		inner.v = m[key]
	}
	return inner
}

// open returns the map under a key after checkKeys.
func (p value) open(key string, keys ...string) value {
	inner := p.at(key)
	inner.checkKeys(keys...)
	return inner
}

// checkKeys refuses anything but a map and reports unknown keys.
func (p value) checkKeys(keys ...string) {
	for _, key := range slices.Sorted(maps.Keys(p.entries())) {
		if !slices.Contains(keys, key) {
			p.im.report.Unknown = append(p.im.report.Unknown, p.at(key).path)
		}
	}
}

// entries reads a map: an object, nothing, or a list by its indexes.
func (p value) entries() map[string]any {
	switch v := p.v.(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	case []any:
		m := make(map[string]any, len(v))
		for i, item := range v {
			m[strconv.Itoa(i)] = item
		}
		return m
	}
	p.im.fail(p.path, "is %s, not an object", kindOf(p.v))
	return nil
}

// items reads a list: an array, nothing, or an object whose keys are numbers.
func (p value) items() []value {
	switch v := p.v.(type) {
	case nil:
		return nil
	case []any:
		items := make([]value, len(v))
		for i, item := range v {
			items[i] = value{im: p.im, path: fmt.Sprintf("%s[%d]", p.path, i), v: item}
		}
		return items
	case map[string]any:
		return p.numbered(v)
	}
	p.im.fail(p.path, "is %s, not a list", kindOf(p.v))
	return nil
}

func (p value) numbered(m map[string]any) []value {
	keys := make([]int, 0, len(m))
	for key := range m {
		n, err := strconv.Atoi(key)
		if err != nil || n < 0 || strconv.Itoa(n) != key {
			p.im.fail(p.path, "is an object, not a list")
			return nil
		}
		keys = append(keys, n)
	}
	slices.Sort(keys)
	items := make([]value, len(keys))
	for i, n := range keys {
		items[i] = value{im: p.im, path: fmt.Sprintf("%s[%d]", p.path, n), v: m[strconv.Itoa(n)]}
	}
	return items
}

// empty reports a missing value, zero, or an empty text, list or map.
func (p value) empty() bool {
	switch v := p.v.(type) {
	case nil:
		return true
	case json.Number:
		return v == "0"
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// text reads a string that must be there.
func (p value) text() string {
	if p.v == nil {
		p.im.fail(p.path, "is missing")
	}
	return p.optional()
}

// optional reads a string; empty for nothing.
func (p value) optional() string {
	s, ok := p.v.(string)
	if !ok && p.v != nil {
		p.im.fail(p.path, "is %s, not a string", kindOf(p.v))
	}
	return s
}

// oneOf reads one of some words.
func oneOf[T ~string](p value, allowed ...T) T {
	word := T(p.text())
	if !slices.Contains(allowed, word) {
		p.im.fail(p.path, "is not one of %s", strings.ReplaceAll(strings.Trim(fmt.Sprint(allowed), "[]"), " ", ", "))
	}
	return word
}

// integer reads a whole number; nil for nothing.
func (p value) integer() *int64 {
	n, ok := p.number()
	if !ok {
		return nil
	}
	if i, err := n.Int64(); err == nil {
		return &i
	}
	f, err := n.Float64()
	if i := int64(f); err == nil && f > -1e15 && f < 1e15 && float64(i) == f { // PHP writes 10.0 for a float
		return &i
	}
	p.im.fail(p.path, "is not a whole number that fits")
	return nil
}

// count reads a whole number that is not negative; 0 for nothing.
func (p value) count() int64 {
	n := p.integer()
	if n == nil {
		return 0
	}
	if *n < 0 {
		p.im.fail(p.path, "is negative")
	}
	return *n
}

// decimal reads a number; nil for nothing.
func (p value) decimal() *float64 {
	n, ok := p.number()
	if !ok {
		return nil
	}
	f, err := n.Float64()
	if err != nil {
		p.im.fail(p.path, "is not a number that fits")
	}
	return &f
}

func (p value) number() (json.Number, bool) {
	n, ok := p.v.(json.Number)
	if !ok && p.v != nil {
		p.im.fail(p.path, "is %s, not a number", kindOf(p.v))
	}
	return n, ok
}

// boolean reads true or false, or 0 or 1 as PHP may write it.
func (p value) boolean() bool {
	switch v := p.v.(type) {
	case nil:
		return false
	case bool:
		return v
	case json.Number:
		return v.String() != "0"
	}
	p.im.fail(p.path, "is %s, not a boolean", kindOf(p.v))
	return false
}

// moment reads a time; zero for nothing.
func (p value) moment() time.Time {
	text := p.optional()
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if t = session.Instant(t); err != nil || t.Year() < 1 || t.Year() > 9999 {
		p.im.fail(p.path, "is not a time such as 2026-02-22T10:00:00+00:00")
		return time.Time{}
	}
	return t
}

func (p value) momentPtr() *time.Time {
	if t := p.moment(); !t.IsZero() {
		return &t
	}
	return nil
}

// names reads a list of names; nil for nothing.
func (p value) names() []string {
	if p.v == nil {
		return nil
	}
	names := []string{}
	for _, item := range p.items() {
		name := item.text()
		if strings.TrimSpace(name) == "" {
			p.im.fail(item.path, "is blank")
		}
		names = append(names, name)
	}
	return names
}

// raw encodes the value as JSON.
func (p value) raw() json.RawMessage {
	raw, err := session.JSON(p.v)
	if err != nil {
		p.im.fail(p.path, "%v", err)
	}
	return raw
}

// drop reports a part of the file that is not kept, unless it is empty.
func (p value) drop() {
	if !p.empty() {
		p.im.report.Dropped = append(p.im.report.Dropped, p.path)
	}
}

func (p value) dropAt(keys ...string) {
	for _, key := range keys {
		p.at(key).drop()
	}
}

func (im *importer) note(format string, args ...any) {
	im.report.Notes = append(im.report.Notes, fmt.Sprintf(format, args...))
}
