package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// Chat returns the session of a chat with an agent, a new one for a new chat.
// Field is what a client calls the id.
func (c *Call) Chat(ctx context.Context, def session.Definition, id, field string) (session.Session, error) {
	s, err := c.Settled(ctx, id)
	if errors.Is(err, session.ErrNotFound) {
		s, err = c.Runtime.Create(ctx, def, holdfast.WithID(id))
		if errors.Is(err, session.ErrConflict) { // another request was faster
			s, err = c.Settled(ctx, id)
		}
	}
	if err == nil && s.Definition().Name != def.Name {
		err = Invalid(field, "the chat belongs to the agent "+s.Definition().Name)
	}
	return s, err
}

// CheckIdle refuses a message to a chat that is answering.
func CheckIdle(s session.Session) error {
	if s.Running() && !s.Waiting() {
		return problem.New(http.StatusConflict, "busy", "the chat is answering; resume its stream, or cancel it")
	}
	return nil
}

// ReadObject reads the fields of a request.
func ReadObject(body io.Reader) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(body).Decode(&fields); err != nil {
		return nil, Invalid("body", "it is not a JSON object")
	}
	return fields, nil
}

// Decode reads a request. A field that is not among the names is refused by its
// name.
func Decode(body io.Reader, into any, names ...string) error {
	fields, err := ReadObject(body)
	if err != nil {
		return err
	}
	for name := range fields {
		if !slices.Contains(names, name) {
			return Invalid(name, "it is not supported here")
		}
	}
	whole, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(whole, into)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return Invalid(wrong.Field, "it cannot be a "+wrong.Value)
	}
	return err
}
