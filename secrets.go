package holdfast

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// mask rewrites what is about to be written: messages as Config.Redact says,
// and the values of secrets everywhere. Value and log change together.
func (rt *Runtime) mask(s session.Session) (session.Session, error) {
	if rt.config.Redact == nil && len(rt.config.Secrets) == 0 {
		return s, nil
	}
	return s.Amend(func(c session.Change) (session.Change, error) {
		if added, ok := c.(session.MessageAdded); ok && rt.config.Redact != nil {
			c = session.MessageAdded{Message: rt.config.Redact(added.Message.Clone())}
		}
		return rt.maskChange(c)
	})
}

// maskChange replaces secrets in a change by way of its JSON form, so that no
// field can be forgotten. What holds no secret is returned as it is.
func (rt *Runtime) maskChange(c session.Change) (session.Change, error) {
	raw, err := json.Marshal(session.Record{Seq: seqOf(c), Change: c})
	if err != nil {
		return nil, err
	}
	masked := rt.maskJSON(raw)
	if bytes.Equal(raw, masked) {
		return c, nil
	}
	var r session.Record
	if err := json.Unmarshal(masked, &r); err != nil {
		return nil, err
	}
	return r.Change, nil
}

// seqOf is a number that fits the change: a message's own.
func seqOf(c session.Change) int64 {
	if added, ok := c.(session.MessageAdded); ok && added.Message.Seq > 0 {
		return added.Message.Seq
	}
	return 1
}

func (rt *Runtime) maskMessage(m session.Message) (session.Message, error) {
	if rt.config.Redact != nil {
		m = rt.config.Redact(m.Clone())
	}
	m.Seq = 1
	c, err := rt.maskChange(session.MessageAdded{Message: m})
	if err != nil {
		return m, err
	}
	if added, ok := c.(session.MessageAdded); ok {
		m = added.Message
	}
	m.Seq = 0
	return m, nil
}

// maskJSON replaces secrets in JSON text, in every way JSON may write them.
func (rt *Runtime) maskJSON(raw []byte) []byte {
	for _, name := range rt.secretNames() {
		value := rt.config.Secrets[name]
		for _, form := range []func(string) []byte{quotedJSON, unescapedJSON} {
			inner := form(value)
			raw = bytes.ReplaceAll(raw, inner, []byte("[secret:"+name+"]"))
		}
	}
	return raw
}

// masked replaces secrets in plain text.
func (rt *Runtime) masked(text string) string {
	for _, name := range rt.secretNames() {
		text = strings.ReplaceAll(text, rt.config.Secrets[name], "[secret:"+name+"]")
	}
	return text
}

// secretNames lists the secrets that have a value, the longest value first so
// that one inside another leaves nothing behind.
func (rt *Runtime) secretNames() []string {
	names := slices.DeleteFunc(keysOf(rt.config.Secrets), func(n string) bool { return rt.config.Secrets[n] == "" })
	slices.SortStableFunc(names, func(a, b string) int { return len(rt.config.Secrets[b]) - len(rt.config.Secrets[a]) })
	return names
}

// quotedJSON is a string as json.Marshal writes it, without the quotes.
func quotedJSON(s string) []byte {
	raw, err := json.Marshal(s)
	if err != nil || len(raw) < 2 {
		return []byte(s)
	}
	return raw[1 : len(raw)-1]
}

// unescapedJSON is the same without escapes for HTML.
func unescapedJSON(s string) []byte {
	raw, err := session.JSON(s)
	if err != nil || len(raw) < 2 {
		return []byte(s)
	}
	return raw[1 : len(raw)-1]
}
