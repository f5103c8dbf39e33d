package strands

import (
	"encoding/json"
	"time"
)

// The roles of a message. Tool results are spoken by the user.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// Message is one file message_<n>.json.
type Message struct {
	Number    int // n
	Body      Body
	Redacted  *Body // stands in for Body where a guard wanted it hidden
	CreatedAt time.Time
	UpdatedAt time.Time
	Unit      string // the unit of work it belongs to; "" where the other program wrote it
	Own       Object // whatever else stands under "holdfast"
	Extra     Object
}

// Body is who says what. The content is a list of blocks of one key each, such
// as {"text": "…"} or {"toolUse": {…}}; blocks nobody here knows are kept.
type Body struct {
	Role    string
	Content []Object
	Extra   Object
}

// Shown is what may be seen of a message.
func (m Message) Shown() Body {
	if m.Redacted != nil {
		return *m.Redacted
	}
	return m.Body
}

// MarshalJSON writes the object of a message file.
func (m Message) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("message", m.Body)
	w.put("message_id", m.Number)
	w.put("redact_message", m.Redacted)
	w.moment("created_at", m.CreatedAt)
	w.moment("updated_at", m.UpdatedAt)
	if m.Unit != "" || m.Own.Len() > 0 {
		var own writer
		if m.Unit != "" {
			own.put("unit", m.Unit)
		}
		raw, err := own.end(m.Own)
		if err != nil {
			return nil, within("holdfast", err)
		}
		w.put("holdfast", json.RawMessage(raw))
	}
	return w.end(m.Extra)
}

// UnmarshalJSON reads the object of a message file.
func (m *Message) UnmarshalJSON(data []byte) error {
	*m = Message{}
	r := read(data)
	r.need("message", &m.Body)
	r.maybe("message_id", &m.Number)
	r.maybe("redact_message", &m.Redacted)
	r.moment("created_at", &m.CreatedAt)
	r.moment("updated_at", &m.UpdatedAt)
	var own json.RawMessage
	if r.maybe("holdfast", &own) {
		inner := read(own)
		inner.maybe("unit", &m.Unit)
		var err error
		if m.Own, err = inner.rest(); err != nil {
			return within("holdfast", err)
		}
	}
	r.check("message_id", m.Number >= 0, "is negative")
	var err error
	m.Extra, err = r.rest()
	return err
}

// MarshalJSON writes the object message of a message file.
func (b Body) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("role", b.Role)
	w.put("content", append([]Object{}, b.Content...))
	return w.end(b.Extra)
}

// UnmarshalJSON reads the object message of a message file.
func (b *Body) UnmarshalJSON(data []byte) error {
	*b = Body{}
	r := read(data)
	r.need("role", &b.Role)
	r.check("role", b.Role == roleUser || b.Role == roleAssistant, "is neither user nor assistant")
	r.need("content", &b.Content)
	if len(b.Content) == 0 {
		b.Content = nil
	}
	var err error
	b.Extra, err = r.rest()
	return err
}
