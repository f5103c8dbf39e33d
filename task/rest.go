package task

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// complete finishes a task with a kind of result.
func (x *Executor) complete(ctx context.Context, r *Run, kind, reason string) error {
	w := wish{status: Completed}
	w.terminalStatus, w.class = statusOfKind(kind, "")
	return x.rest(ctx, r, w, reason, move{})
}

// cancelled ends a task because a user wants it so.
func (x *Executor) cancelled(ctx context.Context, r *Run) error {
	item, asked, err := r.cancelWish(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	m := r.stepBack("cancelled")
	if asked {
		m.changes = append(m.changes, session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)})
	}
	return x.rest(ctx, r, wish{status: Cancelled}, "", m)
}

// rest brings a task to rest: the row, what happened and the end of open
// approvals are one write. What is wished for may come out differently: a
// completion with a failed step is none. A task that has ended already is left
// as it is.
func (x *Executor) rest(ctx context.Context, r *Run, w wish, reason string, m move) error {
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
	if reason != "" && !slices.Contains(row.StopReasons, reason) {
		row.StopReasons = append(slices.Clone(row.StopReasons), reason)
	}
	row.AwaitingUserInputReasonCode = ""
	if reason == string(StopUserInput) {
		row.AwaitingUserInputReasonCode = inputReason
	}
	if row.StartedAt > 0 {
		row.LastRunDurationMS = max(now-row.StartedAt, 0)
	}
	if terminal(w.status) {
		over, err := r.approvalsOver(ctx)
		if err != nil {
			return err
		}
		row.CompletedAt, m = now, m.and(over)
	}
	told := restEvents(row, reason)
	return r.seal(ctx, "task."+w.status, m.and(move{changes: told, state: func(s *session.TaskState) {
		if terminal(w.status) {
			s.Steps.Current = nil
		}
	}, row: func(r *session.TaskRow) { *r = row }}))
}

// restEvents say how a task came to rest.
func restEvents(row session.TaskRow, reason string) []session.Change {
	status := map[string]any{"status": row.Status}
	for name, value := range map[string]string{"terminalStatus": row.TerminalStatus, "failureClass": row.FailureClass, "error": row.Error} {
		if value != "" {
			status[name] = value
		}
	}
	note := func(message string) map[string]any {
		said := map[string]any{"message": message}
		if reason != "" {
			said["reason"] = reason
		}
		return said
	}
	switch row.Status {
	case Completed:
		ended := map[string]any{"status": row.Status, "terminalStatus": row.TerminalStatus, "completedAt": row.CompletedAt, "stopReasons": append([]string{}, row.StopReasons...)}
		if row.FailureClass != "" {
			ended["failureClass"] = row.FailureClass
		}
		if row.ResultSummary != "" {
			ended["resultSummary"] = row.ResultSummary
		}
		return []session.Change{event("task_completed", ended)}
	case Cancelled:
		return []session.Change{event("task_status", status), event("task_cancelled", note(cancelledText))}
	case Paused:
		return []session.Change{event("task_paused", note(orText(row.Error, "Paused")))}
	case Interrupted:
		return []session.Change{event("task_interrupted", note(interruptedNote))}
	}
	return []session.Change{event("task_status", status)}
}

// approvalsOver ends what was asked: what was answered and not yet acted on is
// written down as it was answered, the rest is cancelled. The calls that waited
// have an error as their result.
func (r *Run) approvalsOver(ctx context.Context) (move, error) {
	var m move
	open := slices.DeleteFunc(slices.Clone(r.state().Approvals), func(a session.Approval) bool { return a.Status != approvalPending })
	if len(open) == 0 {
		return m, nil
	}
	items, err := r.x.rt.Inbox(ctx, r.ID())
	if err != nil {
		return m, err
	}
	for _, a := range open {
		name := "approval_cancelled"
		a.Status, a.ResolvedAt = approvalCancelled, millis(r.x.c.Clock())
		for _, item := range items {
			if said, ok := answerOf(item); ok && item.Kind == store.ItemApproval && said.ApprovalID == a.ID {
				m.changes = append(m.changes, session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)})
				name = said.resolve(&a)
			}
		}
		m.changes = append(m.changes, event(name, map[string]any{"approval": a}))
		m.changes = append(m.changes, r.refusedCall(a.CallID, approvalEndedText)...)
	}
	return m, nil
}

// refusedCall is an error as the result of a call that waits for one.
func (r *Run) refusedCall(callID, why string) []session.Change {
	call, stepID, ok := r.openCall(callID)
	if !ok {
		return nil
	}
	v := denied(call, session.PermissionReason{Type: "user", Summary: why})
	return append([]session.Change{r.resultMessage(stepID, call, *v.result, true)}, v.with.changes...)
}

// openCall finds a call that has no result.
func (r *Run) openCall(id string) (call session.ToolCall, stepID string, ok bool) {
	s := r.session()
	for i := s.Len() - 1; i >= 0; i-- {
		m := s.Message(i)
		for _, c := range m.ToolCalls {
			if c.ID == id {
				waits := slices.ContainsFunc(r.unanswered(m), func(open session.ToolCall) bool { return open.ID == id })
				return c, m.StepID, waits
			}
		}
	}
	return call, "", false
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
	wish := store.Item{ID: "cancel:" + x.c.NewID(), Kind: store.ItemCancel}
	for range leavingTries {
		if Ended(row.TaskRow) {
			return row, nil
		}
		err := x.hold(ctx, id, x.cancelled)
		if !errors.Is(err, session.ErrBusy) {
			return x.after(ctx, id, err)
		}
		if _, err := x.rt.Post(ctx, id, wish); err != nil {
			return row, err
		}
		if err := sleep(ctx, leavingPause); err != nil {
			return row, err
		}
		if row, err = x.Get(ctx, id); err != nil {
			return row, err
		}
	}
	return row, nil
}

// WrapUp asks a task to finish with what it has. Where nobody works on it, it
// is finished at once.
func (x *Executor) WrapUp(ctx context.Context, id string) (Row, error) {
	row, err := x.Get(ctx, id)
	if err != nil || Ended(row.TaskRow) {
		return row, err
	}
	err = x.hold(ctx, id, func(ctx context.Context, r *Run) error {
		if Ended(r.row()) {
			return nil
		}
		if err := x.moveOn(ctx, r); err != nil {
			return err
		}
		plan := r.state().Plan
		if step, ok := nextStep(orPlan(plan)); ok && step.Status == stepInProgress {
			if err := x.stepDone(ctx, r, step); err != nil {
				return err
			}
		}
		return x.complete(ctx, r, wrappedUp(r.state().Plan), string(StopWrapUp))
	})
	if errors.Is(err, session.ErrBusy) {
		_, err = x.rt.Post(ctx, id, store.Item{Kind: store.ItemWrapUp})
	}
	return x.after(ctx, id, err)
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
