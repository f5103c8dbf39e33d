package holdfast

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// builtIn marks the actions of this package. Their names cannot be taken.
type builtIn interface{ statuses() []session.Status }

var builtInNames = []string{
	"SendMessage", "ContinueExecution", "AbandonExecution", "ClearSession", "RewindSession", "UpdateTask", "ChangeModel",
	"ChangeSystemPrompt", "PruneSession", "WidenWindow", "StoreVariable", "WriteMetadata", "RemoveMetadata", "RenameSession",
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

// inside is the environment of a built-in action, which cannot run without.
func inside(ctx context.Context, a Action) (*Environment, error) {
	if e := Env(ctx); e != nil {
		return e, nil
	}
	return nil, &session.InvalidError{Field: "action", Reason: a.Name() + " runs through Runtime.Execute only"}
}

// SuspendSession keeps a session and lets nothing run on it.
type SuspendSession struct{}

// Name is SuspendSession.
func (SuspendSession) Name() string               { return "SuspendSession" }
func (SuspendSession) statuses() []session.Status { return onlyOpen }

// Execute sets the status.
func (a SuspendSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return toStatus(ctx, a, s, session.Suspended, "")
}

// ResumeSession opens a suspended, completed or failed session again.
type ResumeSession struct{}

// Name is ResumeSession.
func (ResumeSession) Name() string               { return "ResumeSession" }
func (ResumeSession) statuses() []session.Status { return notDeleted }

// Execute sets the status.
func (a ResumeSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return toStatus(ctx, a, s, session.Active, "")
}

// CompleteSession closes a session as done.
type CompleteSession struct{}

// Name is CompleteSession.
func (CompleteSession) Name() string { return "CompleteSession" }
func (CompleteSession) statuses() []session.Status {
	return []session.Status{session.Active, session.Suspended, session.Completed}
}

// Execute sets the status.
func (a CompleteSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return toStatus(ctx, a, s, session.Completed, "")
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
	return toStatus(ctx, a, s, session.Failed, a.Reason)
}

// DeleteSession hides a session. RestoreSession brings it back; Runtime.Purge
// removes it for good.
type DeleteSession struct{}

// Name is DeleteSession.
func (DeleteSession) Name() string               { return "DeleteSession" }
func (DeleteSession) statuses() []session.Status { return session.Statuses() }

// Execute sets the status.
func (a DeleteSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return toStatus(ctx, a, s, session.Deleted, "")
}

// RestoreSession brings a deleted session back to the status it had.
type RestoreSession struct{}

// Name is RestoreSession.
func (RestoreSession) Name() string               { return "RestoreSession" }
func (RestoreSession) statuses() []session.Status { return onlyDeleted }

// Execute sets the status.
func (a RestoreSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return toStatus(ctx, a, s, s.StatusBeforeDeletion(), "")
}

func toStatus(ctx context.Context, a Action, s session.Session, status session.Status, reason string) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	return s.WithStatus(status, reason, env.Now())
}

// RenameSession gives a session a human name; empty takes it away.
type RenameSession struct{ To string }

// Name is RenameSession.
func (RenameSession) Name() string               { return "RenameSession" }
func (RenameSession) statuses() []session.Status { return notDeleted }

// Execute sets the name.
func (a RenameSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	return s.WithName(a.To, env.Now())
}

// SetExpiry says from when a session may be swept; the zero time means never.
type SetExpiry struct{ At time.Time }

// Name is SetExpiry.
func (SetExpiry) Name() string               { return "SetExpiry" }
func (SetExpiry) statuses() []session.Status { return notDeleted }

// Execute sets the expiry.
func (a SetExpiry) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	return s.WithExpiry(a.At, env.Now())
}

// ClearSession empties transcript, window and summary and abandons an
// interrupted execution. Everything else stays, and the log keeps all of it.
type ClearSession struct{}

// Name is ClearSession.
func (ClearSession) Name() string               { return "ClearSession" }
func (ClearSession) statuses() []session.Status { return onlyOpen }

// Execute clears.
func (a ClearSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	return s.Cleared(env.Now())
}

// RewindSession makes a session's state what it was at a version. Nothing is
// removed: rewinding to a later version undoes it. Status, name, owner, usage
// and counters stay. It needs a store with a log.
type RewindSession struct{ To int64 }

// Name is RewindSession.
func (RewindSession) Name() string               { return "RewindSession" }
func (RewindSession) statuses() []session.Status { return onlyOpen }

// Execute rewinds.
func (a RewindSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	rt := env.x.rt
	if rt.logs == nil {
		return s, rt.unsupported("rewinding")
	}
	target, err := rt.logs.LoadAt(ctx, env.x.ref, a.To)
	if err != nil {
		return s, err
	}
	return s.Rewound(target, env.Now())
}

// ChangeSystemPrompt sets the prompt in force. Empty text means no prompt;
// Reset returns to the definition's.
type ChangeSystemPrompt struct {
	Text  string
	Reset bool
}

// Name is ChangeSystemPrompt.
func (ChangeSystemPrompt) Name() string               { return "ChangeSystemPrompt" }
func (ChangeSystemPrompt) statuses() []session.Status { return onlyOpen }

// Execute sets the prompt.
func (a ChangeSystemPrompt) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	if a.Reset && a.Text != "" {
		return s, &session.InvalidError{Field: "text", Reason: "stands beside Reset; give one of the two"}
	}
	if a.Reset {
		a.Text = s.Definition().SystemPrompt
	}
	return s.WithSystemPrompt(a.Text, env.Now())
}

// ChangeModel overrides the model; the very next inference goes to it. An
// empty model returns to the definition's.
type ChangeModel struct {
	Model  string
	Params *session.ModelParams
}

// Name is ChangeModel.
func (ChangeModel) Name() string               { return "ChangeModel" }
func (ChangeModel) statuses() []session.Status { return onlyOpen }

// Execute sets the model, which must exist.
func (a ChangeModel) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	def := s.Definition()
	def.ModelParams = a.Params
	if err := env.x.rt.checkDefinition(def, a.Model); err != nil {
		return s, err
	}
	return s.WithModel(a.Model, a.Params, env.Now())
}

// WriteMetadata sets a metadata key to any JSON value, null included.
type WriteMetadata struct {
	Key   string
	Value any
}

// Name is WriteMetadata.
func (WriteMetadata) Name() string               { return "WriteMetadata" }
func (WriteMetadata) statuses() []session.Status { return notDeleted }

// Execute writes.
func (a WriteMetadata) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	raw, err := session.JSON(a.Value)
	if err != nil {
		return s, err
	}
	return s.WithMetadata(a.Key, raw, env.Now())
}

// RemoveMetadata removes a metadata key; a missing one is no error.
type RemoveMetadata struct{ Key string }

// Name is RemoveMetadata.
func (RemoveMetadata) Name() string               { return "RemoveMetadata" }
func (RemoveMetadata) statuses() []session.Status { return notDeleted }

// Execute removes.
func (a RemoveMetadata) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	return s.WithoutMetadata(a.Key, env.Now())
}

// UpdateTask replaces the session's whole task list. At most 20 items, at most
// one of them in progress.
type UpdateTask struct{ Tasks []session.TaskItem }

// Name is UpdateTask.
func (UpdateTask) Name() string               { return "UpdateTask" }
func (UpdateTask) statuses() []session.Status { return onlyOpen }

// Execute replaces the list.
func (a UpdateTask) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	return s.WithTasks(a.Tasks, env.Now())
}

// StoreVariable writes a value of the session's own memory. IfVersion, where
// set, must be the variable's version; 0 means it must not exist.
type StoreVariable struct {
	Key       string
	Value     any
	IfVersion *int64
}

// Name is StoreVariable.
func (StoreVariable) Name() string               { return "StoreVariable" }
func (StoreVariable) statuses() []session.Status { return onlyOpen }

// Execute stores.
func (a StoreVariable) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	raw, err := session.JSON(a.Value)
	if err != nil {
		return s, err
	}
	if have := s.Variables()[a.Key].Version; a.IfVersion != nil && *a.IfVersion != have {
		return s, &session.ConflictError{ID: s.ID(), Reason: session.ReasonStale, Want: *a.IfVersion, Have: have}
	}
	return s.WithVariable(a.Key, raw, env.Now())
}

// PruneSession moves the window by a strategy. Nothing is deleted.
type PruneSession struct {
	Strategy session.Strategy
	Limit    int
}

// Name is PruneSession.
func (PruneSession) Name() string               { return "PruneSession" }
func (PruneSession) statuses() []session.Status { return onlyOpen }

// Execute moves the window.
func (a PruneSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	return memory.Prune(ctx, s, a.Strategy, a.Limit, env.x.rt.pruning(s))
}

// WidenWindow moves the window back to the group that holds a change, 0 for
// everything, so that every prune can be undone.
type WidenWindow struct{ FromSeq int64 }

// Name is WidenWindow.
func (WidenWindow) Name() string               { return "WidenWindow" }
func (WidenWindow) statuses() []session.Status { return onlyOpen }

// Execute moves the window.
func (a WidenWindow) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	rt, window := env.x.rt, s.Window()
	if a.FromSeq < 0 || a.FromSeq > window.FromSeq {
		return s, &session.InvalidError{Field: "fromSeq", Reason: fmt.Sprintf("%d is not between 0 and the window's start %d", a.FromSeq, window.FromSeq)}
	}
	whole := s
	if s.Partial() && rt.logs != nil {
		if whole, err = rt.logs.LoadWhole(ctx, env.x.ref, 0); err != nil {
			return s, err
		}
	}
	messages := whole.Messages()
	moved := session.WindowMoved{From: window.FromSeq, To: a.FromSeq}
	for _, g := range session.Groups(messages) {
		first := messages[g.From]
		if a.FromSeq > 0 && messages[g.To-1].Seq >= a.FromSeq {
			moved.To = first.Seq
			break
		}
		if a.FromSeq > 0 && (first.Role == session.RoleSystem || first.Role == session.RoleDeveloper) {
			moved.Keep = append(moved.Keep, first.Seq)
		}
	}
	return s.With(env.Now(), moved)
}
