package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
)

// The actions of this file set a session's status, all by setStatus.

// setStatus is the body of an action that sets a status.
func setStatus(ctx context.Context, s session.Session, to session.Status, reason string) (session.Session, error) {
	return s.WithStatus(to, reason, actionTime(ctx))
}

// SuspendSession keeps a session and lets nothing run on it.
type SuspendSession struct {
	Reason string `json:"reason"`
}

// Name is SuspendSession.
func (SuspendSession) Name() string               { return "SuspendSession" }
func (SuspendSession) statuses() []session.Status { return onlyOpen }

// Execute sets the status.
func (a SuspendSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return setStatus(ctx, s, session.Suspended, a.Reason)
}

// ResumeSession opens a suspended, completed or failed session again.
type ResumeSession struct{}

// Name is ResumeSession.
func (ResumeSession) Name() string               { return "ResumeSession" }
func (ResumeSession) statuses() []session.Status { return notDeleted }

// Execute sets the status.
func (ResumeSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return setStatus(ctx, s, session.Active, "")
}

// CompleteSession closes a session as done.
type CompleteSession struct{}

// Name is CompleteSession.
func (CompleteSession) Name() string               { return "CompleteSession" }
func (CompleteSession) statuses() []session.Status { return append(onlyOpen[:2:2], session.Completed) }

// Execute sets the status.
func (CompleteSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return setStatus(ctx, s, session.Completed, "")
}

// FailSession closes a session as given up.
type FailSession struct {
	Reason string `json:"reason"`
}

// Name is FailSession.
func (FailSession) Name() string               { return "FailSession" }
func (FailSession) statuses() []session.Status { return append(onlyOpen[:2:2], session.Failed) }

// Execute sets the status.
func (a FailSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return setStatus(ctx, s, session.Failed, a.Reason)
}

// DeleteSession hides a session. RestoreSession brings it back; Runtime.Purge
// removes it for good.
type DeleteSession struct{}

// Name is DeleteSession.
func (DeleteSession) Name() string               { return "DeleteSession" }
func (DeleteSession) statuses() []session.Status { return session.Statuses() }

// Execute sets the status.
func (DeleteSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return setStatus(ctx, s, session.Deleted, "")
}

// RestoreSession brings a deleted session back to the status it had.
type RestoreSession struct{}

// Name is RestoreSession.
func (RestoreSession) Name() string               { return "RestoreSession" }
func (RestoreSession) statuses() []session.Status { return onlyDeleted }
func (RestoreSession) restores()                  {}

// Execute sets the status.
func (RestoreSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return setStatus(ctx, s, s.StatusBeforeDeletion(), "")
}
