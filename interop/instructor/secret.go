package instructor

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

const (
	maxKeyBytes = 240      // of a metadata key; leaves room for a prefix
	maxValue    = 64 << 10 // of a metadata value
)

// values reads a map. Credentials at any depth are left out, and so are keys and
// values that a session cannot keep.
func (p value) values() session.Values {
	entries := p.entries()
	if len(entries) == 0 {
		return nil
	}
	values := session.Values{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		item := p.at(key)
		item.v = entries[key]
		if session.SecretKey(key) {
			item.drop()
			continue
		}
		item.v = item.scrub()
		raw := item.raw()
		if !validKey(key) || len(raw) > maxValue {
			p.im.note("%s was left out: its key or value is too large for metadata, or the key has control characters", foreign.GeneralPath(item.path))
			p.im.report.Dropped = append(p.im.report.Dropped, item.path)
			continue
		}
		values[key] = raw
	}
	return values
}

func validKey(key string) bool {
	control := func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }
	return key != "" && len(key) <= maxKeyBytes && utf8.ValidString(key) && !strings.ContainsFunc(key, control)
}

// scrub returns the value without the credentials inside it.
func (p value) scrub() any {
	switch v := p.v.(type) {
	case []any:
		for i := range v {
			v[i] = value{im: p.im, path: p.path + "[" + strconv.Itoa(i) + "]", v: v[i]}.scrub()
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if session.SecretKey(key) {
				p.at(key).drop()
				delete(v, key)
				continue
			}
			v[key] = p.at(key).scrub()
		}
	}
	return p.v
}
