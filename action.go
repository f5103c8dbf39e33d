package holdfast

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Action is something to do to a session: it takes a session and returns the
// next one. It passes the whole pipeline and makes exactly one version. It may
// be run again when it was interrupted.
//
// Optional methods: Permits(session.Status) bool says in which statuses it may
// run, active alone by default; Leased() bool says that it works for long and
// needs the session's lease.
type Action interface {
	Name() string
	Execute(ctx context.Context, s session.Session) (session.Session, error)
}

var actionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// checkAction refuses what is no action, or says more than the limits allow.
func checkAction(action Action, l Limits) error {
	if v := reflect.ValueOf(action); action == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return &session.InvalidError{Field: "action", Reason: "is nil"}
	}
	name := action.Name()
	if !actionName.MatchString(name) {
		return &session.InvalidError{Field: "action", Reason: fmt.Sprintf("name %q is not a letter and up to 63 letters, digits, dots, hyphens or underscores", name)}
	}
	if _, own := action.(builtIn); !own && slices.Contains(builtInNames, name) {
		return &session.InvalidError{Field: "action", Reason: fmt.Sprintf("the name %q is taken by a built-in action", name)}
	}
	if send, ok := action.(sender); ok {
		return l.checkSend(send.sent())
	}
	return nil
}

// What the runtime asks of an action are methods, so that a pointer to an action
// and a type that embeds one are treated as the action.
type (
	// builtIn marks the actions of this package. Their names cannot be taken.
	builtIn interface{ statuses() []session.Status }
	// agentRunner marks those that run the agent loop.
	agentRunner interface{ runsAgent() }
	// conversationChanger marks those that a session refuses whose conversation
	// belongs to the package that made it.
	conversationChanger interface{ changesConversation() }
	// sender is an action that sends a message.
	sender interface{ sent() SendMessage }
	// restorer marks the one that leaves deleted.
	restorer interface{ restores() }
)

var builtInNames = []string{
	"SendMessage", "ContinueExecution", "RetryExecution", "AbandonExecution", "ClearSession", "RewindSession", "UpdateTask", "ChangeModel",
	"ChangeSystemPrompt", "PruneSession", "WidenWindow", "StoreVariable", "DeleteVariable", "EditBlock", "WriteMetadata", "RemoveMetadata", "RenameSession",
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
	if runsAgent(a) {
		return true
	}
	long, ok := a.(interface{ Leased() bool })
	return ok && long.Leased()
}

func runsAgent(a Action) bool {
	_, runs := a.(agentRunner)
	return runs
}

// ownsConversation reports a kind of session whose conversation belongs to
// the package that made it.
func ownsConversation(k session.Kind) bool { return k == session.KindTask || k == session.KindWorkflow }

func changesConversation(a Action) bool {
	_, changes := a.(conversationChanger)
	return changes
}

// actionTime is when an action happens: the runtime's time, or the machine's for
// an action that is called directly.
func actionTime(ctx context.Context) time.Time {
	if e := Env(ctx); e != nil {
		return e.Now()
	}
	return time.Now()
}

// requireEnv returns the environment of an action that needs the runtime.
func requireEnv(ctx context.Context, a Action) (*Environment, error) {
	if e := Env(ctx); e != nil && e.checkInAction(a.Name()) == nil {
		return e, nil
	}
	return nil, &session.InvalidError{Field: "action", Reason: a.Name() + " runs through Runtime.Execute only"}
}
