package task

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const inputReason = "user_input" // of a row that waits for what a person has to say

// waits reports a row that rests until something is answered.
func waits(row session.TaskRow) bool {
	return row.Status == Blocked || row.Status == Paused && row.AwaitingUserInputReasonCode == inputReason
}

// waiting sets the row of a task whose calls wait: for questions alone it is
// paused, else blocked.
func waiting(s session.Session) func(*session.TaskRow) {
	return func(row *session.TaskRow) {
		row.Status, row.TerminalStatus, row.AwaitingUserInputReasonCode = Paused, TerminalNeedsUser, inputReason
		if !asksOnly(s) {
			row.Status, row.TerminalStatus, row.AwaitingUserInputReasonCode = Blocked, TerminalAwaitingApproval, ""
		}
	}
}

// asksOnly reports that all calls that wait are questions.
func asksOnly(s session.Session) bool {
	return !slices.ContainsFunc(s.PendingCalls(), func(p session.PendingCall) bool { return p.Waiting() && p.Kind != session.PendingQuestion })
}

// RespondOptions say what follows a response.
type RespondOptions struct {
	GoOn  bool // a denied call does not pause the task: the model is told
	NoRun bool // the task is left to whoever resumes it
}

// How long a response waits for whoever is about to give the lease back.
const (
	leavingPause = 20 * time.Millisecond
	leavingTries = 150
)

// Respond settles a pending call of a task, from any process, as
// holdfast.Runtime.Respond does, and continues the task if nobody works on it.
// An approved call runs once; a denied one leaves the task paused. A response
// that is to be kept as a rule is refused, and the call waits as before, when
// the rule cannot be kept.
func (x *Executor) Respond(ctx context.Context, id string, r session.Response, o RespondOptions) (Row, error) {
	s, err := x.load(ctx, id)
	if err != nil {
		return Row{}, err
	}
	if row := rowIn(s); Ended(row) {
		return x.after(ctx, id, endedError(id, row))
	}
	r.GoOn = o.GoOn
	p, known := s.PendingCall(r.PendingID)
	if known && p.Waiting() && p.Expired(x.c.Clock()) {
		_, err := x.Settle(ctx, id)
		return x.after(ctx, id, errors.Join(err, &session.RespondedError{ID: id, Response: session.Response{PendingID: p.ID, Action: session.RespondExpire}}))
	}
	undo, err := x.keepRule(ctx, s, p, r)
	if err != nil {
		return x.after(ctx, id, err)
	}
	if err := x.rt.Respond(ctx, id, r); err != nil {
		err = errors.Join(err, undo())
		if row, failed := x.Get(ctx, id); failed == nil && Ended(row.TaskRow) { // meanwhile
			err = endedError(id, row.TaskRow)
		}
		return x.after(ctx, id, err)
	}
	if o.NoRun {
		return x.after(ctx, id, nil)
	}
	return x.after(ctx, id, x.continueWaiting(ctx, id, p.ID))
}

// keepRule keeps the rule that a response chooses before the response counts.
// Undo takes it back where another response was first.
func (x *Executor) keepRule(ctx context.Context, s session.Session, p session.PendingCall, r session.Response) (undo func() error, err error) {
	none := func() error { return nil }
	i := slices.IndexFunc(p.Choices, func(c session.Choice) bool { return c.Value == r.Choice && c.Rule != nil })
	if i < 0 || !p.Waiting() || p.Check(r) != nil {
		return none, nil
	}
	rule := *p.Choices[i].Rule
	if rule.Source == session.SourceSession {
		_, _, err := s.Permissions().WithRule(rule)
		return none, err
	}
	if x.c.Rules == nil {
		return none, &session.UnsupportedError{Store: "this program", Ability: "keeping rules"}
	}
	rule.ID, rule.CreatedAt = x.c.NewID(), millis(x.c.Clock())
	added, err := x.c.Rules.Add(ctx, workspaceOf(s), rule)
	if err != nil || !added {
		return none, err
	}
	return func() error {
		finishing, done := store.Finish(ctx)
		defer done()
		_, err := x.c.Rules.Remove(finishing, workspaceOf(s), rule)
		return err
	}, nil
}

// continueWaiting continues a task that waited. Whoever holds the lease takes
// the response itself; one that has left the task waiting is about to let go.
func (x *Executor) continueWaiting(ctx context.Context, id, pendingID string) error {
	for range leavingTries {
		err := x.hold(ctx, id, func(ctx context.Context, r *Run) error {
			if row := r.row(); !waits(row) && row.Status != Interrupted {
				return nil
			}
			if open, err := r.unanswered(ctx); err != nil || open {
				return err
			}
			return x.goOn(ctx, r)
		})
		if !errors.Is(err, session.ErrBusy) {
			return err
		}
		finishing, done := store.Finish(ctx)
		s, err := x.load(finishing, id)
		done()
		if err != nil {
			return err
		}
		if p, waiting := s.PendingCall(pendingID); !waiting || !p.Waiting() || !waits(rowIn(s)) {
			return nil
		}
		if pause(ctx) != nil {
			return nil // the response is in the inbox and will be taken
		}
	}
	return nil
}

// unanswered reports a task whose calls wait, with no response to any of them
// and time left.
func (r *Run) unanswered(ctx context.Context) (bool, error) {
	items, err := r.items(ctx)
	return unanswered(r.session(), items, r.x.c.Clock()), err
}

func unanswered(s session.Session, items []store.Item, now time.Time) bool {
	calls := s.PendingCalls()
	if slices.ContainsFunc(calls, func(p session.PendingCall) bool { return !p.Waiting() || p.Expired(now) }) {
		return false
	}
	return len(calls) > 0 && !slices.ContainsFunc(items, func(i store.Item) bool { return i.Kind == store.ItemResponse })
}

// expired reports a call whose time is over.
func (r *Run) expired() bool {
	now := r.x.c.Clock()
	return slices.ContainsFunc(r.session().PendingCalls(), func(p session.PendingCall) bool { return p.Waiting() && p.Expired(now) })
}

// pause waits a moment for whoever holds the lease.
func pause(ctx context.Context) error {
	timer := time.NewTimer(leavingPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
