package strands

import (
	"time"

	"github.com/holdfast-dev/holdfast/session"
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

// Shown returns what may be seen of a message.
func (m Message) Shown() Body {
	if m.Redacted != nil {
		return *m.Redacted
	}
	return m.Body
}

func (m *Message) fields() fields {
	list := append(fields{
		{"message", &m.Body, required},
		{"message_id", &m.Number, optional},
		{"redact_message", &m.Redacted, optional},
	}, times(&m.CreatedAt, &m.UpdatedAt)...)
	return append(list, field{"holdfast", &ownKeys{m}, omitNull})
}

// ownKeys is the key holdfast of a message file; null where there is none.
type ownKeys struct{ m *Message }

func (o ownKeys) fields() fields {
	return fields{{"unit", both{&o.m.Unit, orNull(o.m.Unit)}, omitNull}}
}

// MarshalJSON writes the object holdfast of a message file.
func (o ownKeys) MarshalJSON() ([]byte, error) {
	if o.m.Unit == "" && o.m.Own.Len() == 0 {
		return []byte("null"), nil
	}
	return o.fields().encode(o.m.Own)
}

// UnmarshalJSON reads the object holdfast of a message file.
func (o ownKeys) UnmarshalJSON(data []byte) error { return o.fields().decode(data, &o.m.Own) }

// MarshalJSON writes the object of a message file.
func (m Message) MarshalJSON() ([]byte, error) { return m.fields().encode(m.Extra) }

// UnmarshalJSON reads the object of a message file.
func (m *Message) UnmarshalJSON(data []byte) error {
	*m = Message{}
	err := m.fields().decode(data, &m.Extra)
	if err == nil && m.Number < 0 {
		return &session.InvalidError{Field: "message_id", Reason: "is negative"}
	}
	return err
}

func (b *Body) fields() fields {
	return fields{
		{"role", &b.Role, required},
		{"content", both{&b.Content, append([]Object{}, b.Content...)}, required},
	}
}

// MarshalJSON writes the object message of a message file.
func (b Body) MarshalJSON() ([]byte, error) { return b.fields().encode(b.Extra) }

// UnmarshalJSON reads the object message of a message file.
func (b *Body) UnmarshalJSON(data []byte) error {
	*b = Body{}
	if err := b.fields().decode(data, &b.Extra); err != nil {
		return err
	}
	if len(b.Content) == 0 {
		b.Content = nil
	}
	if b.Role != roleUser && b.Role != roleAssistant {
		return &session.InvalidError{Field: "role", Reason: "is neither user nor assistant"}
	}
	return nil
}
