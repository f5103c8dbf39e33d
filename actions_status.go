package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
)

// SuspendSession keeps a session and lets nothing run on it.
type SuspendSession struct{}

// Name is SuspendSession.
func (SuspendSession) Name() string               { return "SuspendSession" }
func (SuspendSession) statuses() []session.Status { return onlyOpen }

// Execute sets the status.
func (SuspendSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithStatus(session.Suspended, "", actionTime(ctx))
}

// ResumeSession opens a suspended, completed or failed session again.
type ResumeSession struct{}

// Name is ResumeSession.
func (ResumeSession) Name() string               { return "ResumeSession" }
func (ResumeSession) statuses() []session.Status { return notDeleted }

// Execute sets the status.
func (ResumeSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithStatus(session.Active, "", actionTime(ctx))
}

// CompleteSession closes a session as done.
type CompleteSession struct{}

// Name is CompleteSession.
func (CompleteSession) Name() string { return "CompleteSession" }
func (CompleteSession) statuses() []session.Status {
	return []session.Status{session.Active, session.Suspended, session.Completed}
}

// Execute sets the status.
func (CompleteSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithStatus(session.Completed, "", actionTime(ctx))
}

// FailSession closes a session as given up.
type FailSession struct{ Reason string }

// Name is FailSession.
func (FailSession) Name() string { return "FailSession" }
func (FailSession) statuses() []session.Status {
	return []session.Status{session.Active, session.Suspended, session.Failed}
}

// Execute sets the status.
func (a FailSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithStatus(session.Failed, a.Reason, actionTime(ctx))
}

// DeleteSession hides a session. RestoreSession brings it back; Runtime.Purge
// removes it for good.
type DeleteSession struct{}

// Name is DeleteSession.
func (DeleteSession) Name() string               { return "DeleteSession" }
func (DeleteSession) statuses() []session.Status { return session.Statuses() }

// Execute sets the status.
func (DeleteSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithStatus(session.Deleted, "", actionTime(ctx))
}

// RestoreSession brings a deleted session back to the status it had.
type RestoreSession struct{}

// Name is RestoreSession.
func (RestoreSession) Name() string               { return "RestoreSession" }
func (RestoreSession) statuses() []session.Status { return onlyDeleted }

// Execute sets the status.
func (RestoreSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithStatus(s.StatusBeforeDeletion(), "", actionTime(ctx))
}
