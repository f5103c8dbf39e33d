package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

const minSecret = 12 // shorter values may be ordinary words

// Secrets masks the credentials of one file. Find is told everything in it
// first, so that Mask and Decode also replace what only another place of the file
// names as a credential. The zero value is ready for use.
type Secrets struct {
	masks    map[string]string // of the values to replace wherever they stand
	replacer *strings.Replacer
	masked   int
}

// Find learns the values of keys that name credentials. In schemas such keys
// mean something else. The value is decoded JSON.
func (s *Secrets) Find(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			s.Find(item)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch {
			case key == "schema":
			case key == "queryParams":
				params, _ := v[key].(map[string]any)
				for _, name := range slices.Sorted(maps.Keys(params)) {
					s.learn(key, params[name])
				}
			case namesSecret(key):
				s.learn(key, v[key])
			default:
				s.Find(v[key])
			}
		}
	}
}

// namesSecret reports whether the value of a key is a credential.
func namesSecret(key string) bool {
	return session.SecretKey(key) || strings.EqualFold(key, "cookie") || strings.EqualFold(key, "set-cookie")
}

// learn keeps the words of a value that are to be replaced wherever they stand.
// An ordinary word would be masked in every message, so a word without a digit
// counts only in an API key.
func (s *Secrets) learn(key string, v any) {
	switch v := v.(type) {
	case string:
		for _, word := range strings.Fields(v) {
			if len(word) < minSecret || key != "apiKey" && !strings.ContainsAny(word, "0123456789") {
				continue
			}
			if s.masks == nil {
				s.masks = map[string]string{}
			}
			if s.masks[word] == "" {
				s.masks[word], s.replacer = maskOf(key), nil
			}
		}
	case []any:
		for _, item := range v {
			s.learn(key, item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s.learn(key, v[name])
		}
	}
}

func maskOf(key string) string { return "[secret:" + key[:min(len(key), 64)] + "]" }

// Mask replaces credentials by what they are: values of keys that name them,
// every place that quotes one, and what MaskText knows. The value is decoded
// JSON, and is changed in place.
func (s *Secrets) Mask(v any) any {
	if s.replacer == nil && len(s.masks) > 0 {
		// The longest first: one may be the beginning of another.
		words := slices.SortedFunc(maps.Keys(s.masks), func(a, b string) int {
			if len(a) != len(b) {
				return len(b) - len(a)
			}
			return strings.Compare(a, b)
		})
		var pairs []string
		for _, word := range words {
			pairs = append(pairs, word, s.masks[word])
		}
		s.replacer = strings.NewReplacer(pairs...)
	}
	return s.mask(v, "")
}

// mask masks a value. All texts of it are credentials where a key above it says
// so.
func (s *Secrets) mask(v any, key string) any {
	switch v := v.(type) {
	case string:
		masked := maskOf(key)
		if key == "" || v == "" {
			masked = s.maskText(v)
		}
		if masked != v {
			s.masked++
		}
		return masked
	case []any:
		for i := range v {
			v[i] = s.mask(v[i], key)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			item, inside := v[name], key
			if inside == "" && namesSecret(name) {
				inside = name
			}
			if name != "schema" {
				item = s.mask(item, inside)
			}
			if shown := s.maskText(name); shown != name {
				delete(v, name)
				name = shown
			}
			v[name] = item
		}
	}
	return v
}

func (s *Secrets) maskText(text string) string {
	if s.replacer != nil {
		text = s.replacer.Replace(text)
	}
	return MaskText(text)
}

// Note says in a report how many texts had credentials.
func (s *Secrets) Note(r *Report) {
	if s.masked > 0 {
		r.Note("texts with credentials, which are masked: %d", s.masked)
	}
}

// Decode reads JSON without the credentials in it. Its errors are for a person.
func (s *Secrets) Decode(data []byte, into any) error {
	v, err := Parse(data)
	if err != nil {
		return err
	}
	s.Find(v)
	masked, err := json.Marshal(s.Mask(v))
	if err != nil {
		return err
	}
	return Unmarshal(masked, into)
}

// Unmarshal reads JSON. Its errors are for a person.
func Unmarshal(data []byte, into any) error { return reason(json.Unmarshal(data, into)) }

// Parse reads one JSON value. Numbers keep their digits. Its errors are for a
// person.
func Parse(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, reason(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not JSON: something stands behind the value")
	}
	return v, nil
}

// reason says what is wrong with JSON, without names of Go types.
func reason(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%s is of the wrong type: %s", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("it is of the wrong type: %s", kind.Value)
	case errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it is not JSON: %w", err)
	}
	return err
}
