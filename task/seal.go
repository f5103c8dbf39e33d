package task

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

type clock func() time.Time

// sealing is the action by which a task makes a version.
type sealing struct {
	name    string
	changes []session.Change
	now     clock
}

func (s sealing) Name() string { return s.name }

func (s sealing) Permits(status session.Status) bool {
	return status == session.Active || status == session.Suspended
}

func (s sealing) Execute(_ context.Context, v session.Session) (session.Session, error) {
	return v.With(s.now(), s.changes...)
}
