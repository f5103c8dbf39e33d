package task

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
)

// Rescued is what Recover did about one task.
type Rescued struct {
	ID      string `json:"id"`
	Resumed bool   `json:"resumed"`
	Row     Row    `json:"row"`
	Err     error  `json:"-"`
}

// Recover finds the tasks whose holder is gone. They are interrupted; those
// that want it are resumed, as many at a time as this executor works on, until
// they come to rest. So are tasks that wait and whose response has come. Tasks
// that wait for a person, and those that a person has interrupted, stay as they
// are.
func (x *Executor) Recover(ctx context.Context) ([]Rescued, error) {
	var ids []string
	for row, err := range x.rows(ctx) {
		if err != nil {
			return nil, err
		}
		stuck, err := x.stuck(ctx, row)
		if err != nil {
			return nil, err
		}
		if stuck {
			ids = append(ids, row.ID)
		}
	}
	slices.Reverse(ids) // those that came first go first
	found := make([]*Rescued, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		settled, wants, err := x.settle(ctx, id)
		if err != nil {
			found[i] = &Rescued{ID: id, Row: settled, Err: err}
			continue
		}
		if !wants {
			if settled.Status == Interrupted {
				found[i] = &Rescued{ID: id, Row: settled}
			}
			continue
		}
		wg.Go(func() { found[i] = x.resumeLost(ctx, id) })
	}
	wg.Wait()
	var all []Rescued
	for _, f := range found {
		if f != nil {
			all = append(all, *f)
		}
	}
	return all, nil
}

// RecoverTask is Recover for one task. It reports whether there was something to
// do.
func (x *Executor) RecoverTask(ctx context.Context, id string) (did bool, err error) {
	row, err := x.Get(ctx, id)
	if err != nil {
		return false, err
	}
	if stuck, err := x.stuck(ctx, row); err != nil || !stuck {
		return false, err
	}
	settled, wants, err := x.settle(ctx, id)
	if err != nil || !wants {
		return settled.Status != row.Status, err
	}
	if done := x.resumeLost(ctx, id); done != nil {
		return true, done.Err
	}
	return false, nil
}

// resumeLost resumes a task; nil if another process was faster.
func (x *Executor) resumeLost(ctx context.Context, id string) *Rescued {
	result, err := x.Resume(ctx, id)
	if result.Already || errors.Is(err, session.ErrTaskTerminal) {
		return nil
	}
	return &Rescued{ID: id, Resumed: true, Row: result.Row, Err: err}
}

// stuck reports a task that could go on and that nobody need do anything for.
func (x *Executor) stuck(ctx context.Context, row Row) (bool, error) {
	switch Canonical(row.TaskRow) {
	case Pending, Queued, Planning, Executing:
		return true, nil
	case Interrupted:
		n := len(row.StopReasons)
		return n > 0 && row.StopReasons[n-1] == stopRestart, nil
	}
	if !waits(row.TaskRow) {
		return false, nil
	}
	s, err := x.load(ctx, row.ID)
	if err != nil {
		return false, err
	}
	items, err := x.rt.Inbox(ctx, row.ID)
	return !unanswered(s, items, x.c.Clock()), err
}

// stopRestart is why a task is interrupted whose process was gone.
const stopRestart = "restart"

// Settle brings one task to rest whose holder is gone, without going on with
// it: it is interrupted, answers that wait take effect and approvals whose
// time is over end. A task that somebody works on is left alone.
func (x *Executor) Settle(ctx context.Context, id string) (Row, error) {
	row, _, err := x.settle(ctx, id)
	return row, err
}

// settle is Settle, and whether the task wants to be resumed.
func (x *Executor) settle(ctx context.Context, id string) (row Row, wants bool, err error) {
	err = x.hold(ctx, id, func(ctx context.Context, r *Run) error {
		if Ended(r.row()) {
			return nil
		}
		switch r.row().Status {
		case Planning, Executing:
			if err := x.lost(ctx, r); err != nil {
				return err
			}
		case Pending, Queued, Interrupted:
		default:
			open, err := r.unanswered(ctx)
			if err != nil || open || !waits(r.row()) {
				return err
			}
			if r.expired() {
				return x.goOn(ctx, r)
			}
		}
		wants = r.state().Settings.AutoResume && !Ended(r.row())
		return nil
	})
	if errors.Is(err, session.ErrBusy) {
		err, wants = nil, false
	}
	row, err = x.after(ctx, id, err)
	return row, wants, err
}

// lost writes that whoever worked on a task is gone. One that was to be
// cancelled is.
func (x *Executor) lost(ctx context.Context, r *Run) error {
	asked, err := r.cancelAsked(ctx)
	if err != nil {
		return err
	}
	if len(asked) > 0 {
		return x.cancelled(ctx, r)
	}
	return r.seal(ctx, "task.interrupt", edit{
		changes: []session.Change{event("task_interrupted", note{Message: lostHolderNote, Reason: stopRestart})},
		row: func(row *session.TaskRow) {
			row.Status, row.TerminalStatus = Interrupted, TerminalResumeAvailable
			row.StopReasons = newest(row.StopReasons, stopRestart)
		},
	})
}
