package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// complete finishes a task with a kind of result.
func (x *Executor) complete(ctx context.Context, r *Run, kind, reason string) error {
	w := outcome{status: Completed}
	w.terminalStatus, w.class = statusOfKind(kind, "")
	return x.rest(ctx, r, w, reason, edit{})
}

// cancelled ends a task because a user wants it so.
func (x *Executor) cancelled(ctx context.Context, r *Run) error {
	finishing, done := store.Finish(ctx)
	defer done()
	asked, err := r.cancelAsked(finishing)
	if err != nil {
		return err
	}
	m := r.stepBack("cancelled")
	m.changes = append(m.changes, asked...)
	return x.rest(ctx, r, outcome{status: Cancelled}, "", m)
}

// rest brings a task to rest: the row, what happened and the end of open
// approvals are one write. What is wished for may come out differently: a
// completion with a failed step is none. A task that has ended already is left
// as it is.
func (x *Executor) rest(ctx context.Context, r *Run, w outcome, reason string, m edit) error {
	ctx = context.WithoutCancel(ctx)
	if Ended(r.row()) {
		return nil
	}
	if err := x.snapshot(ctx, r, SnapshotOnStop); err != nil {
		return err
	}
	now := millis(x.c.Clock())
	state, row := r.state(), r.row()
	shown(&row, &state, now)
	if w.status != Cancelled {
		w = w.gated(state).settled(row)
	}
	row.Status, row.TerminalStatus, row.FailureClass, row.Error = w.status, w.terminalStatus, w.class, w.error
	if reason != "" {
		row.StopReasons = newest(row.StopReasons, reason)
	}
	row.AwaitingUserInputReasonCode = ""
	if reason == string(StopUserInput) {
		row.AwaitingUserInputReasonCode = inputReason
	}
	if row.StartedAt > 0 {
		row.LastRunDurationMS = max(now-row.StartedAt, 0)
	}
	if terminal(w.status) {
		row.CompletedAt = now
		m.changes = append(r.closing(r.session()), m.changes...)
	}
	return r.seal(ctx, "task."+w.status, m.and(edit{changes: restEvents(row, reason), state: func(s *session.TaskState) {
		if terminal(w.status) {
			s.Steps.Current = nil
		}
		if terminal(w.status) || reason == string(StopWrapUp) {
			wrapUpOver(s)
		}
	}, row: func(r *session.TaskRow) { *r = row }}))
}

// restEvents say how a task came to rest.
func restEvents(row session.TaskRow, reason string) []session.Change {
	status := taskStatus{Status: row.Status, TerminalStatus: row.TerminalStatus, FailureClass: row.FailureClass, Error: row.Error}
	switch row.Status {
	case Completed:
		return []session.Change{event("task_completed", taskCompleted{
			Status: row.Status, TerminalStatus: row.TerminalStatus, FailureClass: row.FailureClass, ResultSummary: row.ResultSummary,
			CompletedAt: row.CompletedAt, StopReasons: append([]string{}, row.StopReasons...),
		})}
	case Cancelled:
		return []session.Change{event("task_status", status), event("task_cancelled", note{cancelledText, reason})}
	case Paused:
		return []session.Change{event("task_paused", note{cmp.Or(row.Error, "Paused"), reason})}
	case Interrupted:
		return []session.Change{event("task_interrupted", note{interruptedNote, reason})}
	}
	return []session.Change{event("task_status", status)}
}

// snapshot leaves one in the log where the executor wants it. That it cannot
// be kept is no reason for a task not to come to rest.
func (x *Executor) snapshot(ctx context.Context, r *Run, when SnapshotMode) error {
	if x.c.Snapshot == nil || x.c.Snapshots == SnapshotNever || when == SnapshotEveryStep && x.c.Snapshots != SnapshotEveryStep {
		return nil
	}
	_, err := r.SaveSnapshot(ctx)
	if errors.Is(err, session.ErrTooLarge) {
		x.c.Warn("the snapshot of task %s is not kept: %v", r.ID(), err)
		return nil
	}
	return err
}

// Cancel ends a task for good. Where somebody works on it that one is told and
// waited for a moment; the row that is returned may not show the end yet. A
// task that has ended is returned as it is.
func (x *Executor) Cancel(ctx context.Context, id string) (Row, error) {
	row, err := x.Get(ctx, id)
	if err != nil {
		return row, err
	}
	cancel := store.Item{ID: "cancel:" + x.c.NewID(), Kind: store.ItemCancel}
	for range leavingTries {
		if Ended(row.TaskRow) {
			return row, nil
		}
		err := x.hold(ctx, id, x.cancelled)
		if !errors.Is(err, session.ErrBusy) {
			return x.after(ctx, id, err)
		}
		if _, err := x.rt.Post(ctx, id, cancel); err != nil {
			return row, err
		}
		if err := pause(ctx); err != nil {
			return row, err
		}
		if row, err = x.Get(ctx, id); err != nil {
			return row, err
		}
	}
	return row, nil
}

func orPlan(p *session.Plan) *session.Plan {
	if p == nil {
		return &session.Plan{}
	}
	return p
}

// stepOf is the id of the step an event is about.
func stepOf(e session.TaskEvent) string {
	var said struct {
		Step struct {
			ID string `json:"id"`
		} `json:"step"`
	}
	_ = json.Unmarshal(e.Data, &said) // an event that cannot be read is about none
	return said.Step.ID
}

// pathIn is the path an event is about.
func pathIn(e session.TaskEvent) string {
	var said struct {
		Path string `json:"path"`
	}
	_ = json.Unmarshal(e.Data, &said)
	return said.Path
}
