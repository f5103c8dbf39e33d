package foreign

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

const minSecret = 12 // shorter values may be ordinary words

// keyShapes are keys that are known by their look, wherever they stand: of
// providers of models, code hosts, clouds and chats, and private keys.
var keyShapes = regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}|` +
	`xox[abeprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z0-9]{30,})` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----`)

// Mask replaces the values of keys that name credentials by what they are, and
// every place that quotes one: an error text may quote a key. Keys that are known
// by their look are replaced too. The value is decoded JSON, and is changed in
// place.
func Mask(v any) any { return maskSecrets(v, findSecrets(v)) }

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
			return keyShapes.ReplaceAllString(replacer.Replace(v), "[secret:key]")
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

// Decode reads JSON without the credentials in it.
func Decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	masked, err := json.Marshal(Mask(v))
	if err != nil {
		return err
	}
	return json.Unmarshal(masked, into)
}
