package task

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Statuses of a task.
const (
	Pending     = "pending"
	Queued      = "queued"
	Planning    = "planning"
	Executing   = "executing"
	Paused      = "paused"
	Blocked     = "blocked"
	Completed   = "completed"
	Failed      = "failed"
	Cancelled   = "cancelled"
	Interrupted = "interrupted"
)

// Statuses lists them.
func Statuses() []string {
	return []string{Pending, Queued, Planning, Executing, Paused, Blocked, Completed, Failed, Cancelled, Interrupted}
}

// How a task ended, or what it waits for.
const (
	TerminalOK               = "ok"
	TerminalPartial          = "partial_success"
	TerminalNeedsUser        = "needs_user_action"
	TerminalAwaitingApproval = "awaiting_approval"
	TerminalResumeAvailable  = "resume_available"
	TerminalFailed           = "failed"
)

// Modes of execution.
var executionModes = []string{"execute", "chat", "plan", "analyze", "verified", "debug"}

// Canonical is where a task really stands. Every reader uses it: the status
// alone may be out of date in rows that other programs wrote.
func Canonical(row session.TaskRow) string {
	ended := row.CompletedAt != 0
	switch row.Status {
	case Completed, Failed, Cancelled:
		return row.Status
	case Paused, Blocked, Interrupted:
		switch row.TerminalStatus {
		case TerminalOK, TerminalPartial, TerminalNeedsUser:
			if ended {
				return Completed
			}
		case TerminalFailed:
			if ended {
				return Failed
			}
		}
		return row.Status
	}
	switch row.TerminalStatus {
	case TerminalFailed:
		return Failed
	case TerminalResumeAvailable:
		return Interrupted
	case TerminalAwaitingApproval:
		return Blocked
	case TerminalNeedsUser:
		if ended {
			return Completed
		}
		return Paused
	case TerminalOK, TerminalPartial:
		return Completed
	}
	if ended {
		return Completed
	}
	return row.Status
}

// Ended reports a task that is over, unless a new run is opened.
func Ended(row session.TaskRow) bool { return terminal(Canonical(row)) }

// endedError refuses what only a task that has not ended can do.
func endedError(id string, row session.TaskRow) error {
	return &session.TaskError{ID: id, Status: Canonical(row), Err: session.ErrTaskTerminal}
}

// moves are the statuses that a status may be followed by, besides failed and
// cancelled, which every task that has not ended may come to.
var moves = map[string][]string{
	Pending:     {Queued, Planning, Executing},
	Queued:      {Planning, Executing},
	Planning:    {Executing, Paused, Blocked, Interrupted},
	Executing:   {Paused, Blocked, Interrupted, Completed},
	Paused:      {Executing},
	Blocked:     {Executing, Paused},
	Interrupted: {Executing},
}

// checkMove refuses what may not happen to a row. A task that has ended is
// frozen: only a new run leads on from it, and it begins as executing.
func checkMove(id string, before, after session.TaskRow) error {
	if before.Status == "" { // it is being made
		return nil
	}
	if Ended(before) {
		if after.Run == before.Run+1 && after.Status == Executing {
			return nil
		}
		return endedError(id, before)
	}
	switch {
	case before.Status == after.Status, after.Status == Failed, after.Status == Cancelled:
		return nil
	case slices.Contains(moves[before.Status], after.Status):
		return nil
	}
	return &session.InvalidError{Field: "status", Reason: "a task that is " + before.Status + " does not become " + after.Status}
}

// RowOf is a task as its header shows it.
func RowOf(info session.Info) (Row, error) {
	if info.Kind != session.KindTask || info.Task == nil {
		return Row{}, &session.InvalidError{Field: "session", Reason: info.ID + " is a " + string(info.Kind) + ", no task"}
	}
	return Row{
		ID: info.ID, CreatedAt: millis(info.CreatedAt), UpdatedAt: millis(info.UpdatedAt), Version: info.Version, TaskRow: info.Task.Clone(),
	}, nil
}

// Get is the row of a task.
func (x *Executor) Get(ctx context.Context, id string) (Row, error) {
	info, err := x.rt.Info(ctx, id)
	if err != nil {
		return Row{}, err
	}
	return RowOf(info)
}

// Filter selects tasks.
type Filter struct {
	Statuses []string // canonical ones; empty: all
}

// List goes over tasks, those first that moved last, as Show shows them. It
// reads rows and leases only.
func (x *Executor) List(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, status := range f.Statuses {
			if !slices.Contains(Statuses(), status) {
				yield(Row{}, &session.InvalidError{Field: "status", Reason: status + " is no status of a task"})
				return
			}
		}
		for row, err := range x.rows(ctx) {
			if err == nil {
				row, err = x.shown(ctx, row)
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			if len(f.Statuses) > 0 && !slices.Contains(f.Statuses, Canonical(row.TaskRow)) {
				continue
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Show returns the row of a task as people see it: one whose process is gone
// is interrupted, although nobody has written that yet. Nothing is written.
func (x *Executor) Show(ctx context.Context, id string) (Row, error) {
	row, err := x.Get(ctx, id)
	if err != nil {
		return row, err
	}
	return x.shown(ctx, row)
}

func (x *Executor) shown(ctx context.Context, row Row) (Row, error) {
	if status := Canonical(row.TaskRow); status != Planning && status != Executing {
		return row, nil
	}
	_, live, err := x.rt.Holder(ctx, row.ID)
	if err == nil && !live {
		row.Status, row.TerminalStatus = Interrupted, TerminalResumeAvailable
	}
	return row, err
}

// rows goes over all tasks that can be read, as they are stored.
func (x *Executor) rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for info, err := range x.rt.Sessions(ctx, store.Query{Kinds: []session.Kind{session.KindTask}}) {
			if errors.Is(err, session.ErrCorrupt) || err == nil && info.Task == nil { // one without a row is no task yet
				continue
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			if row, err := RowOf(info); !yield(row, err) {
				return
			}
		}
	}
}

// State is everything a task has come to, what waits in its inbox included.
func (x *Executor) State(ctx context.Context, id string) (session.TaskState, error) {
	s, err := x.load(ctx, id)
	if err != nil {
		return session.TaskState{}, err
	}
	items, err := x.rt.Inbox(ctx, id)
	if err != nil {
		return session.TaskState{}, err
	}
	state := session.NewTaskState()
	if have := s.Task(); have != nil {
		state = *have.Clone()
	}
	state.Queues = queues(items)
	return state, nil
}

// Pending lists the calls of a task that wait for a response, oldest first. A
// call whose response is in the inbox does not.
func (x *Executor) Pending(ctx context.Context, id string) ([]session.PendingCall, error) {
	s, err := x.load(ctx, id)
	if err != nil {
		return nil, err
	}
	items, err := x.rt.Inbox(ctx, id)
	if err != nil {
		return nil, err
	}
	answered := map[string]bool{}
	for _, item := range items {
		var r session.Response
		if item.Kind == store.ItemResponse && json.Unmarshal(item.Payload["response"], &r) == nil {
			answered[r.PendingID] = true
		}
	}
	return slices.DeleteFunc(s.PendingCalls(), func(p session.PendingCall) bool { return !p.Waiting() || answered[p.ID] }), nil
}

// terminal reports a status that a task does not leave by itself.
func terminal(status string) bool {
	return status == Completed || status == Failed || status == Cancelled
}
