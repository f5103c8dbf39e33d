package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Model finds a model by name, the default one where the name is empty, and
// says what it is called. A runtime that works offline refuses all others.
func (rt *Runtime) Model(name string) (string, llm.Model, error) { return rt.model(name) }

// SystemPrompt is a session's prompt with the texts of the skills and
// capabilities that its definition lists.
func (rt *Runtime) SystemPrompt(s session.Session) string { return rt.systemPrompt(s) }

// Inbox lists what has arrived for a session and is not taken, in order.
func (rt *Runtime) Inbox(ctx context.Context, id string) ([]store.Item, error) {
	ref, err := rt.reading(id)
	if err != nil {
		return nil, err
	}
	if rt.inboxes == nil {
		return nil, rt.unsupported("an inbox")
	}
	return rt.inboxes.Inbox(ctx, ref)
}
