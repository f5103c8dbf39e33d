package instructor

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

const (
	minSecret   = 12       // shorter values may be ordinary words
	maxKeyBytes = 240      // of a metadata key; leaves room for a prefix
	maxValue    = 64 << 10 // of a metadata value
)

// findSecrets lists the values of keys that name credentials, with their masks.
// In arguments of tool calls and in schemas such keys mean something else.
func findSecrets(v any) []secret {
	var found []secret
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			found = append(found, findSecrets(item)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch {
			case key == "arguments" || key == "schema":
			case key == "queryParams":
				params, _ := v[key].(map[string]any)
				for _, name := range slices.Sorted(maps.Keys(params)) {
					found = append(found, credentials(key, params[name])...)
				}
			case session.SecretKey(key):
				found = append(found, credentials(key, v[key])...)
			default:
				found = append(found, findSecrets(v[key])...)
			}
		}
	}
	return found
}

// credentials lists the words of a value that may be credentials. An ordinary
// word would be masked in every message, so a word without a digit counts only
// in an API key.
func credentials(key string, v any) []secret {
	var found []secret
	switch v := v.(type) {
	case string:
		for _, word := range strings.Fields(v) {
			if len(word) >= minSecret && (key == "apiKey" || strings.ContainsAny(word, "0123456789")) {
				found = append(found, secret{word, "[secret:" + key + "]"})
			}
		}
	case []any:
		for _, item := range v {
			found = append(found, credentials(key, item)...)
		}
	}
	return found
}

type secret struct{ value, mask string }

// maskSecrets replaces secrets wherever they occur: an error text may quote a key.
func maskSecrets(v any, secrets []secret) any {
	if len(secrets) == 0 {
		return v
	}
	// The longest first: one may be the beginning of another.
	slices.SortStableFunc(secrets, func(a, b secret) int { return len(b.value) - len(a.value) })
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s.value, s.mask)
	}
	replacer := strings.NewReplacer(pairs...)
	var mask func(v any) any
	mask = func(v any) any {
		switch v := v.(type) {
		case string:
			return replacer.Replace(v)
		case []any:
			for i := range v {
				v[i] = mask(v[i])
			}
		case map[string]any:
			for key := range v {
				v[key] = mask(v[key])
			}
		}
		return v
	}
	return mask(v)
}

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
			p.im.note("%s was left out: its key or value is too large for metadata, or the key has control characters", generalPath(item.path))
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
