package server

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// explain returns why an agent cannot run, in a way that one can act on: what
// the server lacks, where it lacks something. Other errors stay as they are.
func (c caller) explain(err error, def session.Definition, model string) error {
	if c.missing == nil || !errors.Is(err, session.ErrDefinition) {
		return err
	}
	return cmp.Or(c.missing(def, model), err)
}

// explainAction explains why an action on a session was refused.
func (c caller) explainAction(ctx context.Context, err error, id string, a holdfast.Action) error {
	if c.missing == nil || !errors.Is(err, session.ErrDefinition) {
		return err
	}
	if change, ok := a.(holdfast.ChangeModel); ok {
		return c.explain(err, session.Definition{}, change.Model)
	}
	s, unread := c.rt.Get(ctx, id)
	if unread != nil {
		return err
	}
	return c.explain(err, s.Definition(), s.Model())
}
