package session

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// Request is one thing asked of a session, with its place in a trace: which
// request it came from, and which one all began with. It is an immutable
// value; what goes in and comes out is copied.
type Request struct{ f RequestFields }

// RequestFields is what a request is made of.
type RequestFields struct {
	ID        string // a UUID
	SessionID string
	RootID    string // the request the trace began with; empty: this one
	ParentID  string // the request this one came from; empty: none
	Payload   Values
	Metadata  Values
	CreatedAt time.Time
}

// NewRequest is a request of its own or one of a trace. A parent without a
// root is a BrokenTraceError, anything else that is wrong an InvalidError.
func NewRequest(f RequestFields) (Request, error) {
	if f.Payload == nil {
		return Request{}, invalid("payload", "is missing")
	}
	if err := checkID("sessionId", f.SessionID); err != nil {
		return Request{}, err
	}
	for _, id := range []struct {
		field string
		value *string
	}{{"requestId", &f.ID}, {"rootRequestId", &f.RootID}, {"parentRequestId", &f.ParentID}} {
		if *id.value == "" && id.field != "requestId" {
			continue
		}
		if !uuidPattern.MatchString(*id.value) {
			return Request{}, invalid(id.field, "%s is not a UUID", quoted(*id.value))
		}
		*id.value = strings.ToLower(*id.value)
	}
	switch {
	case f.RootID == "" && f.ParentID != "":
		return Request{}, &BrokenTraceError{RequestID: f.ID, ParentID: f.ParentID}
	case f.RootID == "":
		f.RootID = f.ID
	}
	f.CreatedAt = Instant(f.CreatedAt)
	var err error
	if f.Payload, err = compactValues("payload", f.Payload, 0); err != nil {
		return Request{}, err
	}
	f.Metadata, err = compactValues("metadata", f.Metadata, 0)
	return Request{f}, err
}

var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// Child is a request that comes from this one: same session, same root. A nil
// metadata takes over a copy of the parent's; any other replaces it whole.
func (r Request) Child(id string, payload, metadata Values, at time.Time) (Request, error) {
	if metadata == nil {
		metadata = r.f.Metadata
	}
	return NewRequest(RequestFields{
		ID: id, SessionID: r.f.SessionID, RootID: r.f.RootID, ParentID: r.f.ID, Payload: payload, Metadata: metadata, CreatedAt: at,
	})
}

// ID is the request's own id.
func (r Request) ID() string { return r.f.ID }

// SessionID is the session it is for.
func (r Request) SessionID() string { return r.f.SessionID }

// RootID is the request its trace began with: its own id if that is this one.
func (r Request) RootID() string { return r.f.RootID }

// ParentID is the request it came from, "" for none.
func (r Request) ParentID() string { return r.f.ParentID }

// CreatedAt is when it was made.
func (r Request) CreatedAt() time.Time { return r.f.CreatedAt }

// Payload is what is asked, a copy.
func (r Request) Payload() Values { return r.f.Payload.Clone() }

// Metadata is what is said about it, a copy.
func (r Request) Metadata() Values { return r.f.Metadata.Clone() }

type wireRequest struct {
	ID        string    `json:"requestId"`
	SessionID string    `json:"sessionId"`
	RootID    string    `json:"rootRequestId"`
	ParentID  *string   `json:"parentRequestId"`
	Payload   Values    `json:"payload"`
	Metadata  Values    `json:"metadata"`
	CreatedAt time.Time `json:"createdAt"`
}

// MarshalJSON writes every field, in camel case.
func (r Request) MarshalJSON() ([]byte, error) {
	w := wireRequest{
		ID: r.f.ID, SessionID: r.f.SessionID, RootID: r.f.RootID, Payload: r.f.Payload, Metadata: r.f.Metadata, CreatedAt: r.f.CreatedAt,
	}
	if r.f.ParentID != "" {
		w.ParentID = &r.f.ParentID
	}
	return encode(w)
}

// snakeNames are other spellings of a request's fields.
var snakeNames = map[string]string{
	"request_id": "requestId", "session_id": "sessionId", "root_request_id": "rootRequestId",
	"parent_request_id": "parentRequestId", "created_at": "createdAt",
}

// DecodeRequest reads a request. Names may be in camel or in snake case, but
// not both for one field. A missing or null id, time or metadata is filled in.
func DecodeRequest(data []byte, newID func() string, now time.Time) (Request, error) {
	var raw map[string]json.RawMessage
	if err := DecodeStrict("request", data, &raw); err != nil {
		return Request{}, err
	}
	if raw == nil {
		return Request{}, invalid("request", "is not an object")
	}
	named := make(map[string]json.RawMessage, len(raw))
	for key, value := range raw {
		name := key
		if camel, ok := snakeNames[key]; ok {
			name = camel
		}
		if _, twice := named[name]; twice {
			return Request{}, invalid(name, "stands in both spellings")
		}
		named[name] = value
	}
	plain, err := encode(named)
	if err != nil {
		return Request{}, invalid("request", "%v", err)
	}
	var w wireRequest // JSON null leaves a field empty
	if err := DecodeStrict("request", plain, &w); err != nil {
		return Request{}, err
	}
	f := RequestFields{ID: w.ID, SessionID: w.SessionID, RootID: w.RootID, Payload: w.Payload, Metadata: w.Metadata, CreatedAt: w.CreatedAt}
	if w.ParentID != nil {
		f.ParentID = *w.ParentID
	}
	if f.ID == "" {
		f.ID = newID()
	}
	if f.CreatedAt.IsZero() {
		f.CreatedAt = now
	}
	return NewRequest(f)
}
