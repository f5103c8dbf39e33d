package strands

import (
	"encoding/json"

	"github.com/holdfast-dev/holdfast/session"
)

// Kind is what a directory with a session.json holds.
type Kind string

// The kinds of session.json.
const (
	KindNone     Kind = ""         // neither
	KindWorkflow Kind = "workflow" // a Dir to Load
	KindAgent    Kind = "agent"    // one agent's, written by the SDK alone: a Dir with one Conversation
)

// Detect tells by its text what a session.json belongs to.
func Detect(sessionJSON []byte) Kind {
	var keys map[string]json.RawMessage
	if json.Unmarshal(sessionJSON, &keys) != nil {
		return KindNone
	}
	if _, ok := keys["session_type"]; ok {
		return KindAgent
	}
	if _, ok := keys["metadata"]; ok {
		return KindWorkflow
	}
	return KindNone
}

// Conversation reads the directory of one agent's session. A directory without
// an agent in it is a session.NotFoundError.
func (d Dir) Conversation() (Conversation, error) {
	c, ok, err := readConversation(d.ID(), string(d))
	if err == nil && !ok {
		err = session.NotFound(d.ID())
	}
	return c, err
}
