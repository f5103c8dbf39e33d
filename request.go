package holdfast

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/holdfast-dev/holdfast/session"
)

const defaultRequestBytes = 1 << 20

// DecodeRequest reads a request from JSON, gives it an id and a time where it
// has none, and refuses one that is larger than Config.MaxRequestBytes.
func (rt *Runtime) DecodeRequest(data []byte) (session.Request, error) {
	if err := rt.checkRequestSize(len(data)); err != nil {
		return session.Request{}, err
	}
	return session.DecodeRequest(data, rt.config.NewID, rt.config.Now())
}

func (rt *Runtime) checkRequestSize(size int) error {
	if most := rt.config.MaxRequestBytes; size > most {
		return &session.InvalidError{Field: "request", Reason: fmt.Sprintf("has %d bytes, at most %d are taken", size, most)}
	}
	return nil
}

// Submit carries out a request on its session. A payload with a "text" or a
// "message" is sent to the agent; Config.Requests maps all others. A request
// that is submitted twice runs once: its id is the idempotency key, and the id
// of the message it sends. It takes IfVersion, OnBusy and Stream.
func (rt *Runtime) Submit(ctx context.Context, r session.Request, opts ...Option) (session.Session, error) {
	action, err := rt.requestAction(r)
	if err != nil {
		return session.Session{}, rt.redactError(err)
	}
	return rt.Execute(ctx, r.SessionID(), action, append(opts[:len(opts):len(opts)], IdempotencyKey(r.ID()))...)
}

// requestAction returns the action a request asks for.
func (rt *Runtime) requestAction(r session.Request) (Action, error) {
	raw, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if err := rt.checkRequestSize(len(raw)); err != nil {
		return nil, err
	}
	payload := r.Payload()
	text, hasText := payload["text"]
	message, hasMessage := payload["message"]
	switch {
	case hasText && hasMessage:
		return nil, &session.InvalidError{Field: "payload", Reason: "has both a text and a message"}
	case hasText:
		var said string
		if text[0] != '"' || json.Unmarshal(text, &said) != nil {
			return nil, &session.InvalidError{Field: "payload.text", Reason: "is not a string"}
		}
		return sendForRequest(session.Message{Content: session.Text(said)}, r), nil
	case hasMessage:
		var m session.Message
		if err := json.Unmarshal(message, &m); err != nil {
			return nil, &session.InvalidError{Field: "payload.message", Reason: err.Error()}
		}
		return sendForRequest(m, r), nil
	case rt.config.Requests == nil:
		return nil, &session.InvalidError{Field: "payload", Reason: "has neither a text nor a message, and no other requests are mapped here"}
	}
	action, err := rt.config.Requests(r)
	if err == nil && action == nil {
		err = &session.InvalidError{Field: "payload", Reason: "is not mapped to an action"}
	}
	return action, err
}

// sendForRequest sends a message with the ids and the metadata of its request.
// Metadata that the message has itself stays.
func sendForRequest(m session.Message, r session.Request) Action {
	m.ID, m.RequestID, m.RootRequestID, m.ParentRequestID = r.ID(), r.ID(), r.RootID(), r.ParentID()
	metadata := r.Metadata()
	maps.Copy(metadata, m.Metadata)
	m.Metadata = metadata
	return SendMessage{Message: &m}
}
