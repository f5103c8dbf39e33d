package admission

import (
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// CheckCreate runs the checks of Create and Fork in the order that the
// contract fixes. Exists is true for deleted and corrupt sessions too.
func CheckCreate(next session.Session, exists bool) error {
	switch {
	case exists:
		return &session.ConflictError{ID: next.ID(), Reason: session.ReasonExists}
	case next.Version() != 0:
		return &session.ConflictError{ID: next.ID(), Reason: session.ReasonNonzeroVersion, Want: next.Version()}
	}
	return nil
}

// Parent is the session a fork was made of, and the point in its log up to
// which the two share it.
type Parent struct {
	Ref     store.Ref
	AgentID string
	At      session.ForkPoint // the end of one of the parent's versions
}

// ParentOf returns the parent whose log a new session can share, if the store
// holds it with this agent id and a version that ends at this point.
func ParentOf(next session.Session) (Parent, bool) {
	i := next.Info()
	if i.Fork == nil || session.ForkedFrom(next) == "" {
		return Parent{}, false
	}
	return Parent{Ref: store.Ref{Tenant: i.Tenant, ID: i.ParentID}, AgentID: session.ForkedFrom(next), At: *i.Fork}, true
}

// Rooted returns a new session with a log of its own, for a store that does
// not hold its parent, and whether that changed the session. Where the log must
// be shared (Fork) it is ErrNotFound, or InvalidError for a session that is not
// a fork.
func Rooted(next session.Session, mustShare bool) (_ session.Session, changed bool, _ error) {
	i := next.Info()
	switch {
	case mustShare && i.Fork == nil:
		return session.Session{}, false, &session.InvalidError{Field: "fork", Reason: "the session is not a fork"}
	case mustShare:
		return session.Session{}, false, session.NotFound(i.ParentID)
	case beginsLog(session.Unsaved(next)):
		return next, false, nil
	}
	rooted, err := session.Detach(next)
	return rooted, true, err
}

// beginsLog reports whether changes are a log by themselves.
func beginsLog(pending []session.Record) bool {
	return len(pending) > 0 && Has[session.SessionCreated](pending[:1])
}
