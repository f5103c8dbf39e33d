package holdfast

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// builtIn marks the actions of this package. Their names cannot be taken.
type builtIn interface{ statuses() []session.Status }

var builtInNames = []string{
	"SendMessage", "ContinueExecution", "AbandonExecution", "ClearSession", "RewindSession", "UpdateTask", "ChangeModel",
	"ChangeSystemPrompt", "PruneSession", "WidenWindow", "StoreVariable", "DeleteVariable", "WriteMetadata", "RemoveMetadata", "RenameSession",
	"SetExpiry", "SuspendSession", "ResumeSession", "CompleteSession", "FailSession", "DeleteSession", "RestoreSession",
	"Fork", "create", "fork", "import", "purge",
}

// The rows of the table of what may be done in which status.
var (
	onlyActive  = []session.Status{session.Active}
	onlyOpen    = []session.Status{session.Active, session.Suspended}
	notDeleted  = []session.Status{session.Active, session.Suspended, session.Completed, session.Failed}
	onlyDeleted = []session.Status{session.Deleted}
)

// permits reports whether an action may run on a session in that status.
func permits(a Action, status session.Status) bool {
	if own, ok := a.(builtIn); ok {
		return slices.Contains(own.statuses(), status)
	}
	if custom, ok := a.(interface{ Permits(session.Status) bool }); ok {
		return custom.Permits(status)
	}
	return status == session.Active
}

// leased reports an action that works for long and needs the lease.
func leased(a Action) bool {
	if conversation(a) {
		return true
	}
	long, ok := a.(interface{ Leased() bool })
	return ok && long.Leased()
}

// ownsConversation reports a kind of session whose conversation belongs to
// the package that made it.
func ownsConversation(k session.Kind) bool { return k == session.KindTask || k == session.KindWorkflow }

// ofConversation reports actions that such a session refuses.
func ofConversation(a Action) bool {
	switch a.(type) {
	case SendMessage, ContinueExecution, AbandonExecution, ClearSession, RewindSession:
		return true
	}
	return false
}

// moment is when an action happens: the runtime's time, or the machine's for
// an action that is called by hand.
func moment(ctx context.Context) time.Time {
	if e := Env(ctx); e != nil {
		return e.Now()
	}
	return time.Now()
}

// inside is the environment of an action that needs the runtime.
func inside(ctx context.Context, a Action) (*Environment, error) {
	if e := Env(ctx); e != nil {
		return e, nil
	}
	return nil, &session.InvalidError{Field: "action", Reason: a.Name() + " runs through Runtime.Execute only"}
}
