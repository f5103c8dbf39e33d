package strands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// field is a key of a JSON object and the variable that its value is read into.
type field struct {
	key  string
	at   any // a pointer, or both
	rule rule
}

// both are the variable that a value is read into and the value that is written.
type both struct{ read, write any }

type rule int

const (
	optional rule = iota // may be missing or null, and is always written
	required             // must be there and not be null
	omitNull             // may be missing, and is not written when it is null
)

// fields are the keys of an object in the order in which they are written.
type fields []field

// decode reads an object. Extra takes the keys of a newer program.
func (list fields) decode(data []byte, extra *Object) error {
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return &session.InvalidError{Field: "value", Reason: "is null, not an object"}
	}
	var left Object
	if err := json.Unmarshal(data, &left); err != nil {
		return err
	}
	for _, f := range list {
		raw, ok := left.Get(f.key)
		left.Delete(f.key)
		if !ok || string(raw) == "null" {
			if f.rule == required {
				return &session.InvalidError{Field: f.key, Reason: "is missing"}
			}
			continue
		}
		into := f.at
		if b, ok := into.(both); ok {
			into = b.read
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return inField(f.key, err)
		}
	}
	*extra = left
	return nil
}

// encode writes the object, with the keys of a newer program at its end.
func (list fields) encode(extra Object) ([]byte, error) {
	var made Object
	for _, f := range list {
		value := f.at
		if b, ok := value.(both); ok {
			value = b.write
		}
		raw, err := session.JSON(value)
		if err != nil {
			return nil, inField(f.key, err)
		}
		if f.rule != omitNull || string(raw) != "null" {
			made.Set(f.key, raw)
		}
	}
	for key, value := range extra.All() {
		if _, known := made.Get(key); !known {
			made.Set(key, value)
		}
	}
	return made.MarshalJSON()
}

// inField names the key whose value cannot be read or written.
func inField(key string, err error) error {
	var inner *session.InvalidError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.Is(err, session.ErrNewerFormat):
		return err
	case errors.As(err, &inner) && inner.Field != "value":
		return &session.InvalidError{Field: key + "." + inner.Field, Reason: inner.Reason}
	case errors.As(err, &inner):
		return &session.InvalidError{Field: key, Reason: inner.Reason}
	case errors.As(err, &typed):
		return &session.InvalidError{Field: key, Reason: fmt.Sprintf("a JSON %s does not belong here", typed.Value)}
	}
	return &session.InvalidError{Field: key, Reason: err.Error()}
}

// moment is a time in a file; null for the zero time.
type moment time.Time

// MarshalJSON writes the time as FormatTime does.
func (m moment) MarshalJSON() ([]byte, error) {
	if time.Time(m).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(FormatTime(time.Time(m)))
}

// UnmarshalJSON reads what ParseTime takes.
func (m *moment) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	t, err := ParseTime(text)
	*m = moment(t)
	return err
}

// times returns the keys that most objects end with.
func times(created, updated *time.Time) fields {
	return fields{{"created_at", (*moment)(created), omitNull}, {"updated_at", (*moment)(updated), omitNull}}
}

// orNull returns nil, which is written as null, for the zero value.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
