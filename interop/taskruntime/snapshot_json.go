package taskruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// object is a JSON object whose keys keep their order.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

var errNoObject = errors.New("is not an object")

// readObject reads one JSON object and nothing after it.
func readObject(raw json.RawMessage) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	var o object
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, errNoObject
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o = append(o, member{key, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("something follows the object")
	}
	return o, nil
}

// get is the value at key; of keys that stand twice the last one counts.
func (o object) get(key string) (json.RawMessage, bool) {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].key == key {
			return o[i].value, true
		}
	}
	return nil, false
}

// has reports a key with a value other than null.
func (o object) has(key string) bool {
	v, ok := o.get(key)
	return ok && string(v) != "null"
}

// text is the string at key, else "".
func (o object) text(key string) string {
	v, _ := o.get(key)
	return jsonText(v)
}

// number is the integer at key, if there is one.
func (o object) number(key string) (int64, bool) {
	v, ok := o.get(key)
	var n *int64
	if !ok || json.Unmarshal(v, &n) != nil || n == nil {
		return 0, false
	}
	return *n, true
}

// jsonText is a JSON string's text; of anything else it is "".
func jsonText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// JSON is the object, in its order.
func (o object) JSON() json.RawMessage {
	size := 2
	for _, m := range o {
		size += len(m.key) + len(m.value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, raw(m.key)...), ':'), m.value...)
	}
	return append(out, '}')
}

// compactJSON is a value in the one form that snapshots are compared and hashed
// in.
func compactJSON(value json.RawMessage) (json.RawMessage, error) {
	c, err := session.CompactJSON("snapshot", value)
	var wrong *session.InvalidError
	if errors.As(err, &wrong) {
		return nil, errors.New(wrong.Reason)
	}
	return c, err
}

// array splits a JSON array.
func array(value json.RawMessage) ([]json.RawMessage, bool) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || list == nil {
		return nil, false
	}
	return list, true
}

// fieldError is a field of a snapshot that cannot be read.
type fieldError struct{ field, reason string }

func (e *fieldError) Error() string { return strings.TrimPrefix(e.field+": ", ": ") + e.reason }

// reasonOf says what is wrong with a value, in words of JSON.
func reasonOf(err error) string {
	var typed *json.UnmarshalTypeError
	var invalid *session.InvalidError
	switch {
	case errors.As(err, &invalid):
		return invalid.Reason
	case errors.As(err, &typed) && typed.Field != "":
		return fmt.Sprintf("a JSON %s stands at %s", typed.Value, typed.Field)
	case errors.As(err, &typed):
		return fmt.Sprintf("a JSON %s does not belong here", typed.Value)
	}
	return err.Error()
}

func raw(v any) json.RawMessage {
	data, err := session.JSON(v)
	if err != nil {
		panic("taskruntime: a value is no JSON: " + err.Error()) // they are made of texts, numbers and lists
	}
	return data
}
