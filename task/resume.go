package task

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// ResumeResult is what came of a resume.
type ResumeResult struct {
	Already bool `json:"already"` // somebody is at work on it; nothing was written
	Row     Row  `json:"row"`
}

// resumeTries is how often a resume that lost a race decides again.
const resumeTries = 5

var errMoved = errors.New("the task moved")

// Resume goes on with a task, from any process, until it comes to rest. Of
// several at a time exactly one moves the row. ErrTaskTerminal for a task that
// has ended and ErrNotResumable for one that waits for an answer: nothing was
// written. ErrConflict when the race was lost again and again.
func (x *Executor) Resume(ctx context.Context, id string) (ResumeResult, error) {
	for range resumeTries {
		row, err := x.Get(ctx, id)
		if err != nil {
			return ResumeResult{}, err
		}
		already, err := x.underWay(ctx, row)
		if err != nil || already {
			return ResumeResult{Already: already, Row: row}, err
		}
		err = x.hold(ctx, id, func(ctx context.Context, r *Run) error {
			if r.session().Version() != row.Version {
				return errMoved
			}
			return x.resume(ctx, r)
		})
		switch {
		case errors.Is(err, errMoved), errors.Is(err, session.ErrBusy):
			if err := pause(ctx); err != nil {
				return ResumeResult{Row: row}, err
			}
			continue
		case errors.Is(err, session.ErrTaskTerminal), errors.Is(err, session.ErrNotResumable):
			return ResumeResult{Row: row}, err
		}
		row, err = x.after(ctx, id, err)
		return ResumeResult{Row: row}, err
	}
	return ResumeResult{}, &session.ConflictError{ID: id, Reason: session.ReasonStale}
}

// underWay reports a task that somebody works on. One that has ended is an
// error.
func (x *Executor) underWay(ctx context.Context, row Row) (bool, error) {
	if Ended(row.TaskRow) {
		return false, endedError(row.ID, row.TaskRow)
	}
	if !slices.Contains([]string{Pending, Queued, Planning, Executing}, row.Status) {
		return false, nil
	}
	_, live, err := x.rt.Holder(ctx, row.ID)
	return live, err
}

// resume decides under the lease, where nothing moves any more.
func (x *Executor) resume(ctx context.Context, r *Run) error {
	if err := x.ready(ctx, r); err != nil {
		return err
	}
	return x.goOn(ctx, r)
}

// ready refuses a task that has ended, or waits and has no response.
func (x *Executor) ready(ctx context.Context, r *Run) error {
	if row := r.row(); Ended(row) {
		return endedError(r.ID(), row)
	}
	if !waits(r.row()) {
		return nil
	}
	open, err := r.unanswered(ctx)
	if err == nil && open {
		err = &session.TaskError{ID: r.ID(), Status: Canonical(r.row()), Reason: "it waits for an answer", Err: session.ErrNotResumable}
	}
	return err
}

// goOn moves the row and works on the task.
func (x *Executor) goOn(ctx context.Context, r *Run) error {
	return x.workUntilIdle(ctx, r, func(ctx context.Context) error {
		if err := x.moveOn(ctx, r); err != nil {
			return err
		}
		return x.perform(ctx, r)
	})
}

// moveOn is the write by which a task goes on: a version, with the lease and
// against the version that was read. Grants that count no more are dropped.
func (x *Executor) moveOn(ctx context.Context, r *Run) error {
	if status := r.row().Status; status == Pending || status == Queued {
		return x.begin(ctx, r)
	}
	return r.seal(ctx, "task.resume", x.resuming(r, taskResumed{Message: resumedText}))
}

func (x *Executor) resuming(r *Run, said taskResumed) edit {
	now := millis(x.c.Clock())
	m := edit{changes: []session.Change{event("task_resumed", said)}, row: func(row *session.TaskRow) {
		row.Status = Executing
		if slices.Contains([]string{TerminalAwaitingApproval, TerminalNeedsUser, TerminalResumeAvailable}, row.TerminalStatus) {
			row.TerminalStatus, row.FailureClass, row.Error = "", "", ""
		}
		row.AwaitingUserInputReasonCode = ""
		row.StopReasons = without(row.StopReasons, stopRestart)
		if row.StartedAt == 0 {
			row.StartedAt = now
		}
	}}
	m.changes = append(m.changes, x.dropGrants(r)...)
	return m
}

// dropGrants drops the grants that count no more.
func (x *Executor) dropGrants(r *Run) []session.Change {
	_, dead := r.session().Permissions().WithoutDeadGrants(millis(x.c.Clock()), x.instance)
	if len(dead) == 0 {
		return nil
	}
	return []session.Change{event("permission_grants_dropped", grantsDropped{Keys: dead})}
}

// newRun opens another run of a task that has ended. What was meant for the
// run that is over is taken from the inbox and means nothing any more.
func (x *Executor) newRun(ctx context.Context, r *Run) (edit, error) {
	items, err := r.items(ctx)
	if err != nil {
		return edit{}, err
	}
	previous := Canonical(r.row())
	m := x.resuming(r, taskResumed{Message: resumedText, NewRun: true, PreviousStatus: previous})
	m.changes = append(m.changes, takeAll(items, store.ItemCancel, store.ItemWrapUp, store.ItemApproval, store.ItemResponse)...)
	return m.and(edit{
		state: func(s *session.TaskState) {
			s.Loop.WrapUp, s.Loop.SoftDeadline = false, false
		},
		row: func(row *session.TaskRow) {
			row.Run++
			row.StartedAt, row.CompletedAt, row.TerminalStatus, row.FailureClass, row.Error = millis(x.c.Clock()), 0, "", "", ""
			row.StopReasons, row.AutoContinueBlockReason = nil, ""
		},
	}), nil
}

// Continue goes on with a task whose budgets are used up, in a new window. The
// options raise what a window does not renew.
func (x *Executor) Continue(ctx context.Context, id string, o ContinueOptions) (Row, error) {
	row, err := x.Get(ctx, id)
	if err != nil {
		return row, err
	}
	err = x.hold(ctx, id, func(ctx context.Context, r *Run) error {
		if err := x.ready(ctx, r); err != nil {
			return err
		}
		if _, _, err := r.continuable(o); err != nil { // before anything is written
			return err
		}
		return x.workUntilIdle(ctx, r, func(ctx context.Context) error {
			if err := x.moveOn(ctx, r); err != nil {
				return err
			}
			return r.Continue(ctx, ContinueManual, o)
		})
	})
	return x.after(ctx, id, err)
}

// Retry tries a task once more: its failed steps are pending again, or all of
// them where nothing is left to do. One that has ended begins another run.
func (x *Executor) Retry(ctx context.Context, id string) (Row, error) {
	if _, err := x.Get(ctx, id); err != nil {
		return Row{}, err
	}
	err := x.hold(ctx, id, func(ctx context.Context, r *Run) error {
		m, err := x.retrying(ctx, r)
		if err != nil {
			return err
		}
		m = m.and(r.allAgain()).and(edit{row: func(row *session.TaskRow) { row.CurrentAttempt = 1 }})
		return x.workUntilIdle(ctx, r, func(ctx context.Context) error {
			if err := r.seal(ctx, "task.retry", m); err != nil {
				return err
			}
			if err := r.ResetForRetry(ctx, "retry requested by user"); err != nil {
				return err
			}
			return x.perform(ctx, r)
		})
	})
	return x.after(ctx, id, err)
}

// retrying is the move by which a retry begins.
func (x *Executor) retrying(ctx context.Context, r *Run) (edit, error) {
	if Ended(r.row()) {
		return x.newRun(ctx, r)
	}
	if err := x.ready(ctx, r); err != nil {
		return edit{}, err
	}
	return x.resuming(r, taskResumed{Message: resumedText}), nil
}

// allAgain makes the steps pending that a retry is about.
func (r *Run) allAgain() edit {
	plan := r.state().Plan
	if plan == nil {
		return edit{}
	}
	next := session.Plan{Description: plan.Description, Steps: slices.Clone(plan.Steps)}
	left := false
	for i, s := range next.Steps {
		if s.Status == stepFailed && !s.Waived {
			next.Steps[i] = untried(s)
		}
		left = left || next.Steps[i].Status == stepPending || s.Status == stepInProgress
	}
	for i, s := range next.Steps {
		if !left {
			next.Steps[i] = untried(s)
		}
	}
	return edit{changes: []session.Change{event("plan_revised", planEvent{Plan: next, Reason: "retry"})}, state: func(s *session.TaskState) {
		s.Steps.FailedRequired, s.Steps.Counts = nil, nil
	}}
}
