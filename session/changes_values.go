package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// MetadataWritten sets one metadata key; null is a value.
type MetadataWritten struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Kind is metadata_written.
func (MetadataWritten) Kind() string { return "metadata_written" }

func (c MetadataWritten) normal() (Change, error) {
	if err := checkKey(c.Key); err != nil {
		return nil, err
	}
	value, err := sized("value", c.Value, maxMetadata)
	c.Value = value
	return c, err
}

func (c MetadataWritten) fold(b *body, _ recordTime) error {
	b.setMetadata(b.st.Metadata.with(c.Key, c.Value))
	return nil
}

func checkMetadataKey(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if isReserved(key) {
		return invalid("key", "%s is reserved", quoted(key))
	}
	return nil
}

func isReserved(key string) bool {
	return key == reservedKey || strings.HasPrefix(key, reservedSpace)
}

// reservedMetadata reports a change of a metadata key that has a method of its own.
func reservedMetadata(c Change) (key string, reserved bool) {
	switch c := c.(type) {
	case MetadataWritten:
		return c.Key, isReserved(c.Key)
	case MetadataRemoved:
		return c.Key, isReserved(c.Key)
	}
	return "", false
}

// MetadataRemoved removes a metadata key; a missing one is no error.
type MetadataRemoved struct {
	Key string `json:"key"`
}

// Kind is metadata_removed.
func (MetadataRemoved) Kind() string { return "metadata_removed" }

func (c MetadataRemoved) normal() (Change, error) { return c, checkKey(c.Key) }

func (c MetadataRemoved) fold(b *body, _ recordTime) error {
	b.setMetadata(b.st.Metadata.without(c.Key))
	return nil
}

// VariableStored writes one value of the session's own memory; null is a value.
// Labels, where there are any, take the place of those before. CallID names the tool call that wrote it, where it must not do so twice.
type VariableStored struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
	Labels *Labels         `json:"labels,omitempty"`
	CallID string          `json:"callId,omitempty"`
}

// Kind is variable_stored.
func (VariableStored) Kind() string { return "variable_stored" }

func (c VariableStored) normal() (Change, error) {
	if err := checkVariableKey(c.Key); err != nil {
		return nil, err
	}
	cleanAll(&c.CallID)
	labels, err := c.Labels.Normal()
	if err != nil {
		return nil, err
	}
	value, err := sized("value", c.Value, maxVariable)
	c.Value, c.Labels = value, labels
	return c, err
}

func (c VariableStored) fold(b *body, t recordTime) error {
	old := b.st.Variables[c.Key]
	v := Variable{Value: c.Value, Labels: c.Labels, Version: old.Version + 1, CreatedAt: t.at, UpdatedAt: t.at, CallID: c.CallID}
	if old.Version > 0 && !old.Deleted && !old.Labels.Expired(t.at) {
		v.CreatedAt = old.CreatedAt
	}
	b.setVariable(c.Key, v)
	return nil
}

// checkVariableKey adds to the rule of keys that of whole segments.
func checkVariableKey(key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	segments := strings.Split(key, "/")
	if slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
		return invalid("key", "%s has a segment that is empty, . or ..", quoted(key))
	}
	return nil
}

// VariableDeleted deletes a variable; its version goes on counting.
type VariableDeleted struct {
	Key string `json:"key"`
}

// Kind is variable_deleted.
func (VariableDeleted) Kind() string { return "variable_deleted" }

func (c VariableDeleted) normal() (Change, error) { return c, checkVariableKey(c.Key) }

func (c VariableDeleted) fold(b *body, t recordTime) error {
	old, ok := b.st.Variables[c.Key]
	if !ok || old.Deleted {
		return nil
	}
	b.setVariable(c.Key, Variable{
		Value: json.RawMessage("null"), Deleted: true, Version: old.Version + 1, CreatedAt: old.CreatedAt, UpdatedAt: t.at,
	})
	return nil
}

// setVariable gives the body a map of its own; the values are shared.
func (b *body) setVariable(key string, v Variable) {
	vars := make(map[string]Variable, len(b.st.Variables)+1)
	maps.Copy(vars, b.st.Variables)
	vars[key] = v
	b.st.Variables = vars
}
