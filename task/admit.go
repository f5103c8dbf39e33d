package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// View is a task at one moment, for packages that write it in another format.
type View struct {
	Session session.Session
	Queues  session.TaskQueues // empty in the view of an earlier version
	Seq     int64              // the last change the view covers
	At      time.Time
}

// View reads a task: as it stands, the open tail included, or at a version.
// What waits in an inbox belongs to no version.
func (x *Executor) View(ctx context.Context, id string, version int64) (View, error) {
	var s session.Session
	var items []store.Item
	var err error
	if version != 0 {
		s, err = x.rt.Get(ctx, id, holdfast.At(version))
	} else if s, err = x.load(ctx, id); err == nil {
		items, err = x.rt.Inbox(ctx, id)
	}
	if err != nil {
		return View{}, err
	}
	_, err = RowOf(s.Info())
	return View{Session: s, Queues: queues(items), Seq: s.Seq(), At: x.c.Clock()}, err
}

// SaveSnapshot writes what Config.Snapshot makes of the task into the log and
// returns the number of that change, which the view covers. Resuming never
// needs it: the log is the truth. ErrTooLarge says that the store cannot hold
// it, UnsupportedError that there is no Config.Snapshot; nothing is written.
func (r *Run) SaveSnapshot(ctx context.Context) (int64, error) {
	if r.x.c.Snapshot == nil {
		return 0, &session.UnsupportedError{Store: "an executor without Config.Snapshot", Ability: "snapshots"}
	}
	items, err := r.items(ctx)
	if err != nil {
		return 0, err
	}
	s := r.session()
	seq := s.Seq() + 1
	payload, err := r.x.c.Snapshot(View{Session: s, Queues: queues(items), Seq: seq, At: r.x.c.Clock()})
	if err != nil {
		return 0, err
	}
	return seq, r.append(ctx, edit{changes: []session.Change{session.TaskEvent{Name: SnapshotEvent, Data: payload}}})
}

// SnapshotEvent names the event that SaveSnapshot writes.
const SnapshotEvent = "conversation_snapshot"

// Arrival is a task that began in another program.
type Arrival struct {
	Spec  Spec
	State session.TaskState // its settings are those of Spec
	// Permissions are what it may do; the mode is that of Spec.
	Permissions session.Permissions
	Queues      session.TaskQueues
	Row         session.TaskRow // how it ended; one that has not ended waits to be resumed
	Messages    []session.Message
	Summary     string // stands before the messages for what they do not say
	Format      string // the form it came in
	Version     int64  // of that form
	// Snapshot makes an event that is written with the task. nil: none.
	Snapshot func(s Spec, state session.TaskState, seq int64) (json.RawMessage, error)
}

// Admit makes a task of one that began elsewhere: a session at version 1 that
// waits to be resumed, or has ended as the task had. Its queues are in the
// inbox. What is refused makes nothing.
func (x *Executor) Admit(ctx context.Context, a Arrival) (Row, error) {
	spec, err := x.checked(a.Spec)
	if err != nil {
		return Row{}, err
	}
	items, err := a.items(x.c.NewID)
	if err != nil {
		return Row{}, err
	}
	changes, err := a.changes(spec, x.c.Clock())
	if err != nil {
		return Row{}, err
	}
	made, err := x.rt.Create(ctx, spec.Definition, holdfast.WithID(spec.ID), holdfast.WithKind(session.KindTask), holdfast.WithChanges(changes...))
	if err != nil {
		return Row{}, err
	}
	for _, item := range items {
		if _, err := x.rt.Post(ctx, made.ID(), item); err != nil {
			finishing, done := store.Finish(ctx)
			err = errors.Join(err, x.rt.Purge(finishing, made.ID()))
			done()
			return Row{}, err
		}
	}
	return RowOf(made.Info())
}

// items are the queues as an inbox keeps them.
func (a Arrival) items(newID func() string) ([]store.Item, error) {
	var items []store.Item
	for _, f := range a.Queues.FollowUps {
		f.ID = cmp.Or(f.ID, newID())
		item, err := followUpItem(f)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	for _, f := range a.Queues.Feedback {
		f.ID = cmp.Or(f.ID, newID())
		item, err := feedbackItem(f)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// CheckFollowUp refuses a follow-up that no queue takes.
func CheckFollowUp(f session.FollowUp) error {
	_, err := followUpItem(f)
	return err
}

// CheckFeedback refuses feedback that no queue takes.
func CheckFeedback(f session.StepFeedback) error {
	_, err := feedbackItem(f)
	return err
}

// changes are the first version of the task: its messages, its state and its
// row.
func (a Arrival) changes(spec Spec, now time.Time) ([]session.Change, error) {
	var changes []session.Change
	for _, m := range a.Messages {
		m.Seq = 0
		changes = append(changes, session.MessageAdded{Message: m})
	}
	if a.Summary != "" && len(changes) > 0 {
		const first = 2 // after the session's creation
		changes = append(changes, session.WindowMoved{Strategy: session.PruneSummary, To: first, Summary: &session.Summary{Text: a.Summary, ToSeq: first - 1, CreatedAt: now}})
	}
	state := a.State
	state.Queues = session.TaskQueues{}
	may := a.Permissions
	may.Mode = spec.PermissionMode
	state.Settings = session.TaskSettings{PlanMode: spec.PlanMode, Capabilities: spec.Workspace.Capabilities}
	changes = append(changes, session.SessionImported{Format: a.Format, Version: a.Version, UpdatedAt: now, Dropped: []string{}}, session.TaskRestored{State: state, Permissions: &may})
	if state.Plan != nil {
		changes = append(changes, event("plan_created", planEvent{Plan: *state.Plan}))
	}
	if len(state.Checklist.Items) > 0 {
		changes = append(changes, event("task_list_created", checklistEvent{Checklist: state.Checklist}))
	}
	changes = append(changes, session.TaskRowChanged{Task: a.row(spec)})
	if a.Snapshot == nil {
		return changes, nil
	}
	payload, err := a.Snapshot(spec, state, int64(len(changes))+2)
	return append(changes, session.TaskEvent{Name: SnapshotEvent, Data: payload}), err
}

func (a Arrival) row(spec Spec) session.TaskRow {
	row := a.Row
	row.Title, row.Prompt, row.ExecutionMode, row.PermissionMode = spec.Title, spec.Prompt, spec.ExecutionMode, spec.PermissionMode
	row.WorkspaceID, row.WorkspacePath = spec.Workspace.ID, spec.Workspace.Root
	row.Run, row.CurrentAttempt, row.MaxAttempts = max(row.Run, 1), max(row.CurrentAttempt, 1), spec.MaxAttempts
	if Ended(row) {
		row.Status = Canonical(row)
	} else {
		row.Status, row.TerminalStatus, row.FailureClass, row.CompletedAt = Interrupted, TerminalResumeAvailable, "", 0
	}
	projected := a.State.Projection()
	row.Projection = &projected
	return row
}

// ExecutionModes lists the modes a task can be executed in.
func ExecutionModes() []string { return slices.Clone(executionModes) }
