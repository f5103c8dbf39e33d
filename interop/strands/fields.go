package strands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// reader takes known keys out of an object; what is left at the end are the
// keys of a newer program. The first problem stays.
type reader struct {
	left Object
	err  error
}

func read(data []byte) *reader {
	r := &reader{}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		r.err = &session.InvalidError{Field: "value", Reason: "is null, not an object"}
		return r
	}
	r.err = json.Unmarshal(data, &r.left)
	return r
}

// need reads a key that must be there and not be null.
func (r *reader) need(key string, into any) {
	if !r.maybe(key, into) {
		r.check(key, false, "is missing")
	}
}

// maybe reads a key, if it is there and not null.
func (r *reader) maybe(key string, into any) bool {
	raw, ok := r.left.Get(key)
	if r.err != nil || !ok {
		return false
	}
	r.left.Delete(key)
	if string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		r.err = within(key, err)
		return false
	}
	return true
}

// moment reads a time that may be missing.
func (r *reader) moment(key string, into *time.Time) bool {
	var text string
	if !r.maybe(key, &text) {
		return false
	}
	t, err := ParseTime(text)
	if err != nil {
		r.err = within(key, err)
		return false
	}
	*into = t
	return true
}

// mustMoment reads a time that must be there.
func (r *reader) mustMoment(key string, into *time.Time) {
	if !r.moment(key, into) {
		r.check(key, false, "is missing")
	}
}

// check refuses what was read under a key.
func (r *reader) check(key string, fine bool, reason string) {
	if !fine && r.err == nil {
		r.err = &session.InvalidError{Field: key, Reason: reason}
	}
}

// rest is what nobody asked for.
func (r *reader) rest() (Object, error) { return r.left, r.err }

// within is a decoder's problem with the value of a key.
func within(key string, err error) error {
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

// writer puts an object together. The first problem stays.
type writer struct {
	made Object
	err  error
}

func (w *writer) put(key string, value any) {
	raw, err := session.JSON(value)
	if err != nil && w.err == nil {
		w.err = within(key, err)
	}
	w.made.entries = append(w.made.entries, entry[json.RawMessage]{key, raw})
}

// moment writes a time, and nothing for the zero time.
func (w *writer) moment(key string, t time.Time) {
	if !t.IsZero() {
		w.put(key, FormatTime(t))
	}
}

// end adds the keys of a newer program and is the object's JSON.
func (w *writer) end(extra Object) ([]byte, error) {
	for key, value := range extra.All() {
		if _, known := w.made.Get(key); !known {
			w.put(key, value)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.made.MarshalJSON()
}

// orNull is null for what has no value.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
