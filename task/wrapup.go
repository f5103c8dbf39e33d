package task

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// WrapUp asks a task to finish with what it has. Whoever works on it lets the
// agent say where it stands, in a last answer without tools. The task is then
// completed if no step is left and its criteria hold; otherwise it is
// interrupted and can be resumed. Where nobody works on it, this is done at
// once, without the answer.
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
		asked := edit{state: func(s *session.TaskState) { s.Loop.WrapUp = true }}
		if err := r.append(ctx, r.stepBack(string(StopWrapUp)).and(asked)); err != nil {
			return err
		}
		_, err := x.wrapsUp(ctx, r)
		return err
	})
	if errors.Is(err, session.ErrBusy) {
		_, err = x.rt.Post(ctx, id, store.Item{Kind: store.ItemWrapUp})
	}
	return x.after(ctx, id, err)
}

// wrapsUp ends the work between two steps when a person has asked for it. A
// step that was under way is done if it was the last one and the criteria hold.
func (x *Executor) wrapsUp(ctx context.Context, r *Run) (bool, error) {
	state := r.state()
	if step, ok := nextStep(orPlan(state.Plan)); ok && step.Status == stepInProgress {
		return false, nil // its loop sees it
	}
	items, err := r.items(ctx)
	if err != nil {
		return false, err
	}
	asked := takeWrapUps(items)
	if len(asked.changes) == 0 && !state.Loop.WrapUp {
		return false, nil
	}
	if err := r.append(ctx, asked); err != nil {
		return false, err
	}
	last, finishable := lastStep(state, criteria(r.row()) != nil)
	if !finishable {
		return true, x.rest(ctx, r, outcome{status: Interrupted}, string(StopWrapUp), edit{})
	}
	_, err = x.verified(ctx, r, last)
	return true, err
}

// takeWrapUps takes the requests to wrap up from the inbox and remembers them.
func takeWrapUps(items []store.Item) edit {
	return edit{changes: takeAll(items, store.ItemWrapUp), state: func(s *session.TaskState) { s.Loop.WrapUp = true }}
}

// lastStep reports a plan that may be finished: nothing is left of it, or only
// a step that has begun and that the task's criteria can judge.
func lastStep(s session.TaskState, judged bool) (last *session.PlanStep, finishable bool) {
	if s.Plan == nil {
		return nil, false
	}
	for _, step := range s.Plan.Steps {
		if step.Status != stepPending {
			continue
		}
		if last != nil || !judged || s.Steps.Counts == nil || s.Steps.Counts.StepID != step.ID {
			return nil, false
		}
		last = &step
	}
	return last, true
}

// wrapUpAsked takes a request to wrap up that has arrived during a step and has
// the agent say where it stands. It stops the step once that is said.
func (w *work) wrapUpAsked(ctx context.Context) (asked bool, err error) {
	if !w.r.state().Loop.WrapUp {
		items, err := w.r.items(ctx)
		if err != nil {
			return false, err
		}
		taken := takeWrapUps(items)
		if len(taken.changes) == 0 {
			return false, nil
		}
		if err := w.r.append(ctx, taken); err != nil {
			return false, err
		}
	}
	if !w.counts().Notes.Has(hintWrapUp) {
		return true, w.note(ctx, hintWrapUp, wrapUpText, nil)
	}
	if s := w.r.session(); s.Message(s.Len()-1).Metadata.String(hintKey) == hintWrapUp {
		return true, nil // the work was interrupted before the answer
	}
	return true, stop(StopWrapUp, nil)
}

// wrapUpOver forgets the request that was granted.
func wrapUpOver(s *session.TaskState) {
	s.Loop.WrapUp = false
	alterCounts(s, func(c *session.StepCounts) { c.Notes = c.Notes.Without(hintWrapUp) })
}
