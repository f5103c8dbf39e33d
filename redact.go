package holdfast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// redactSession rewrites what is about to be written: messages as Config.Redact says,
// and the values of secrets everywhere. Value and log change together.
func (rt *Runtime) redactSession(s session.Session) (session.Session, error) {
	if rt.config.Redact == nil && len(rt.secrets) == 0 {
		return s, nil
	}
	return session.Amend(s, func(c session.Change) (session.Change, error) {
		if added, ok := c.(session.MessageAdded); ok && rt.config.Redact != nil {
			c = session.MessageAdded{Message: rt.config.Redact(added.Message.Clone())}
		}
		return rt.redactChange(c)
	})
}

// redactChange replaces secrets in a change by way of its JSON form, so that no
// field can be forgotten. What holds no secret is returned as it is.
func (rt *Runtime) redactChange(c session.Change) (session.Change, error) {
	raw, err := session.JSON(session.Record{Seq: seqOf(c), Change: c})
	if err != nil {
		return nil, err
	}
	masked, err := rt.redactJSON(raw)
	if err != nil || bytes.Equal(raw, masked) {
		return c, err
	}
	var r session.Record
	if err := json.Unmarshal(masked, &r); err != nil {
		return nil, fmt.Errorf("mask secrets: %w", err)
	}
	return r.Change, nil
}

// seqOf returns a number that fits the change: a message's own.
func seqOf(c session.Change) int64 {
	if added, ok := c.(session.MessageAdded); ok && added.Message.Seq > 0 {
		return added.Message.Seq
	}
	return 1
}

func (rt *Runtime) redactMessage(m session.Message) (session.Message, error) {
	if rt.config.Redact != nil {
		m = rt.config.Redact(m.Clone())
	}
	m.Seq = 1
	c, err := rt.redactChange(session.MessageAdded{Message: m})
	if err != nil {
		return m, err
	}
	if added, ok := c.(session.MessageAdded); ok {
		m = added.Message
	}
	m.Seq = 0
	return m, nil
}

// redactJSON replaces secrets in the strings and keys of a JSON value. One that
// holds none is returned as it is.
func (rt *Runtime) redactJSON(raw json.RawMessage) (json.RawMessage, error) {
	if len(rt.secrets) == 0 {
		return raw, nil
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, &session.InvalidError{Field: "value", Reason: err.Error()}
	}
	found := false
	value = rt.redactValue(value, &found)
	if !found {
		return raw, nil
	}
	return session.JSON(value)
}

func (rt *Runtime) redactValue(value any, found *bool) any {
	switch v := value.(type) {
	case string:
		masked := rt.redactText(v)
		*found = *found || masked != v
		return masked
	case []any:
		for i := range v {
			v[i] = rt.redactValue(v[i], found)
		}
	case map[string]any:
		kept := make(map[string]any, len(v))
		for key, inner := range v {
			masked := rt.redactText(key)
			*found = *found || masked != key
			kept[masked] = rt.redactValue(inner, found)
		}
		return kept
	}
	return value
}

// redactedError is an error whose own text holds a secret.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.err }

// redactError removes known secrets from an error's text.
func (rt *Runtime) redactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := rt.redactText(text); clean != text {
		return &redactedError{text: clean, err: err}
	}
	return err
}

// redactText replaces secrets in plain text.
func (rt *Runtime) redactText(text string) string {
	for _, s := range rt.secrets {
		text = strings.ReplaceAll(text, s.value, s.mask)
	}
	return text
}

// secret is a value that must never be written, and what is written instead.
type secret struct{ value, mask string }

// sortSecrets lists the secrets that have a value, the longest value first so
// that one inside another leaves nothing behind.
func sortSecrets(values map[string]string) []secret {
	var secrets []secret
	for _, name := range keysOf(values) {
		if values[name] != "" {
			secrets = append(secrets, secret{value: values[name], mask: "[secret:" + name + "]"})
		}
	}
	slices.SortStableFunc(secrets, func(a, b secret) int { return len(b.value) - len(a.value) })
	return secrets
}

// minSecret keeps a secret from being a word that stands everywhere.
const minSecret = 8

func checkSecretValues(secrets map[string]string) error {
	for _, name := range keysOf(secrets) {
		if n := len(secrets[name]); n > 0 && n < minSecret {
			return &session.InvalidError{Field: "Config.Secrets", Reason: fmt.Sprintf("%q has %d bytes; under %d it cannot be told from ordinary text", name, n, minSecret)}
		}
	}
	return nil
}
