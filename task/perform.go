package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// workUntilIdle works on a task under its lease until it ends or waits for
// somebody: first is how it begins. It goes on while responses have come.
func (x *Executor) workUntilIdle(ctx context.Context, r *Run, first func(context.Context) error) error {
	leave, err := x.turn(ctx, r)
	if err != nil {
		return x.broken(ctx, r, err)
	}
	defer leave()
	work := first
	for {
		err := x.drive(ctx, r, work)
		if err != nil || Ended(r.row()) {
			return err
		}
		if asked, err := r.cancelAsked(ctx); err != nil || len(asked) > 0 { // it came too late to be seen on the way
			return errors.Join(err, x.cancelled(ctx, r))
		}
		if !waits(r.row()) {
			return nil
		}
		if open, err := r.unanswered(ctx); err != nil || open {
			return err
		}
		work = func(ctx context.Context) error {
			if err := x.moveOn(ctx, r); err != nil {
				return err
			}
			return x.perform(ctx, r)
		}
	}
}

// turn waits until fewer tasks than may be are at work. A new task that waits
// is queued; one that was at work before stays what it is.
func (x *Executor) turn(ctx context.Context, r *Run) (leave func(), err error) {
	p := x.line.join() // first: whoever is seen to be queued has a place
	if p.waits() && r.row().Status == Pending {
		err := r.append(ctx, edit{
			changes: []session.Change{event("task_queued", note{Message: queuedText})},
			row:     func(row *session.TaskRow) { row.Status = Queued },
		})
		if err != nil {
			p.abandon()
			return nil, err
		}
	}
	waiting, stop := r.listening(ctx)
	defer stop()
	return p.enter(waiting)
}

var errCancelled = errors.New("the task was cancelled")

// listening is a context that ends when somebody cancels the task, for what
// takes long and does not look at the inbox itself.
func (r *Run) listening(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := r.hold.Arrived(ctx, func(i store.Item) bool { return i.Kind == store.ItemCancel })
		if err == nil {
			cancel(errCancelled)
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// drive runs work and, each time its window has no turns left, decides whether
// it goes on in a new one.
func (x *Executor) drive(ctx context.Context, r *Run, work func(context.Context) error) error {
	err := work(ctx)
	var over *session.BudgetError
	if errors.As(err, &over) && over.Kind == session.BudgetTurns {
		_, err = r.AutoContinue(ctx, err)
	}
	if err != nil {
		return x.broken(ctx, r, err)
	}
	return r.sealed(ctx, "task.rest")
}

// broken is what an error of the work means. The end of the context leaves the
// task interrupted; a lost lease leaves it to whoever has it now.
func (x *Executor) broken(ctx context.Context, r *Run, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), session.ErrFenced):
		return context.Cause(ctx)
	case errors.Is(err, session.ErrFenced):
		return err
	case errors.Is(err, errCancelled):
		return x.cancelled(ctx, r)
	case ctx.Err() != nil:
		return x.interrupt(ctx, r, context.Cause(ctx))
	}
	return err
}

// interrupt leaves a task that can be resumed.
func (x *Executor) interrupt(ctx context.Context, r *Run, cause error) error {
	if status := r.row().Status; status != Planning && status != Executing {
		err := r.sealed(ctx, "task.interrupt")
		return errors.Join(err, &session.InterruptedError{ID: r.ID(), Seq: session.Base(r.session()), Err: cause})
	}
	reason := "interrupted"
	if errors.Is(cause, session.ErrClosed) { // the process ends; nobody wanted the task to stop
		reason = stopRestart
	}
	if err := x.rest(ctx, r, outcome{status: Interrupted}, reason, r.stepBack(reason)); err != nil {
		return err
	}
	return &session.InterruptedError{ID: r.ID(), Seq: session.Base(r.session()), Err: cause}
}

// perform plans, runs the steps that are left, answers what was said
// meanwhile, verifies and finishes. It returns nil when the task has come to
// rest, whatever its row says then. A BudgetError for the turns of a window
// says that the step is pending again and a new window is needed.
func (x *Executor) perform(ctx context.Context, r *Run) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		asked, err := r.cancelAsked(ctx)
		if err == nil && len(asked) > 0 {
			err = errCancelled
		}
		if err != nil {
			return err
		}
		if reason, err := r.feedbackWaiting(ctx); err != nil || reason == StopFeedbackStop {
			return errors.Join(err, x.rested(ctx, r, reason))
		}
		if err := x.takeSettings(ctx, r); err != nil {
			return err
		}
		if over, err := x.wrapsUp(ctx, r); err != nil || over {
			return err
		}
		state := r.state()
		if state.Plan == nil {
			if err := x.plan(ctx, r); err != nil {
				return x.unplanned(ctx, r, err)
			}
			continue
		}
		step, ok := nextStep(state.Plan)
		var goOn bool
		if ok {
			goOn, err = x.runStep(ctx, r, step)
		} else {
			goOn, err = x.runOut(ctx, r)
		}
		if err != nil || !goOn {
			return err
		}
	}
}

// rested brings a task to rest that feedback has stopped.
func (x *Executor) rested(ctx context.Context, r *Run, reason StopReason) error {
	if reason == "" {
		return nil
	}
	return x.rest(ctx, r, outcome{status: Paused, error: stoppedByUser}, string(reason), edit{})
}

// unplanned is a task for which no plan could be made.
func (x *Executor) unplanned(ctx context.Context, r *Run, err error) error {
	var over *session.BudgetError
	var provider *providerError
	var stored *storeError
	switch {
	case ctx.Err() != nil, errors.Is(err, session.ErrFenced), errors.Is(err, errCancelled), errors.As(err, &stored):
		return err
	case errors.As(err, &over):
		return x.rest(ctx, r, outcome{status: Paused, class: ClassBudget, error: over.Error()}, over.Kind, edit{})
	case Classify(err) == ClassQuota:
		return x.rest(ctx, r, outcome{status: Paused, class: ClassQuota, error: err.Error()}, "provider_error", edit{})
	case errors.As(err, &provider):
		return x.rest(ctx, r, outcome{status: Failed, class: ClassDependency, error: err.Error()}, "dependency_unavailable", edit{})
	}
	return x.rest(ctx, r, outcome{status: Failed, class: ClassUnknown, error: err.Error()}, "error", edit{})
}

// runStep runs one step of the plan. GoOn says that there may be more to do.
func (x *Executor) runStep(ctx context.Context, r *Run, step session.PlanStep) (goOn bool, err error) {
	if step.Status == stepPending {
		if step, err = x.startStep(ctx, r, step); err != nil {
			return false, err
		}
	}
	caps, _ := Caps{}.withDefaults() // none are given
	w := r.newWork(modeStep, step.ID, caps)
	w.step, w.opening = step, r.stepMessages(step)
	var after error
	out, _, err := w.run(ctx, func(ctx context.Context, out Outcome, cause error) error {
		var err error
		goOn, after, err = x.stepEnded(ctx, r, step, out, cause)
		return err
	})
	if err != nil || out.StopReason == StopEndedElsewhere {
		return false, err
	}
	return goOn, after
}

func (x *Executor) startStep(ctx context.Context, r *Run, step session.PlanStep) (session.PlanStep, error) {
	step.Status, step.Error = stepInProgress, ""
	if step.StartedAt == 0 {
		step.StartedAt = millis(x.c.Clock())
	}
	err := r.append(ctx, edit{
		changes: []session.Change{event("step_started", stepEvent{Step: step})},
		state:   func(s *session.TaskState) { s.Steps.Current = &step.ID },
		row:     func(row *session.TaskRow) { row.Status = Executing },
	})
	return step, err
}

// stepMessages is what the model is told when a step begins. The only step of
// a plan that is the prompt needs no more than the prompt.
func (r *Run) stepMessages(step session.PlanStep) []session.Message {
	plan := r.state().Plan
	if len(plan.Steps) == 1 && step.Description == r.row().Prompt {
		return nil
	}
	i := slices.IndexFunc(plan.Steps, func(s session.PlanStep) bool { return s.ID == step.ID })
	text := fmt.Sprintf(stepText, i+1, len(plan.Steps), step.Description)
	return []session.Message{{Role: session.RoleUser, Content: session.Text(text)}}
}

// runOut is a plan without steps that are left: what people said meanwhile is
// answered, then the task is verified and finished.
func (x *Executor) runOut(ctx context.Context, r *Run) (goOn bool, err error) {
	next, ok, err := r.nextFollowUp(ctx)
	if err != nil {
		return false, err
	}
	if ok {
		caps, _ := Caps{}.withDefaults() // none are given
		_, _, err := r.answerFollowUp(ctx, next, caps, func(ctx context.Context, out Outcome, cause error) error {
			var err error
			goOn, err = x.followUpEnded(ctx, r, out, cause)
			return err
		})
		return goOn && err == nil, err
	}
	return x.verified(ctx, r, nil)
}

// nextFollowUp is the message to be answered next: one whose answer was broken
// off, or the first that waits.
func (r *Run) nextFollowUp(ctx context.Context) (session.FollowUp, bool, error) {
	if k := r.state().Steps.Counts; k != nil {
		if id, ok := strings.CutPrefix(k.StepID, followUpStep(session.FollowUp{})); ok {
			return session.FollowUp{ID: id}, true, nil
		}
	}
	waiting, err := r.DrainFollowUps(ctx)
	if err != nil || len(waiting) == 0 {
		return session.FollowUp{}, false, err
	}
	return waiting[0], true, nil
}

// cancelAsked returns the cancels that wait in the inbox, as taken.
func (r *Run) cancelAsked(ctx context.Context) ([]session.Change, error) {
	items, err := r.items(ctx)
	return takeAll(items, store.ItemCancel), err
}

// taken takes an item from the inbox.
func taken(item store.Item) session.Change {
	return session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)}
}

// takeAll takes all items of some kinds.
func takeAll(items []store.Item, kinds ...store.ItemKind) []session.Change {
	var changes []session.Change
	for _, item := range items {
		if slices.Contains(kinds, item.Kind) {
			changes = append(changes, taken(item))
		}
	}
	return changes
}

// bundleOver drops the grant for the shell calls of a step that has ended.
func bundleOver(s session.Session) []session.Change {
	if _, ok := s.Permissions().TemporaryGrants.Get(permission.BundleKey); !ok {
		return nil
	}
	return []session.Change{event("permission_grants_dropped", grantsDropped{Keys: []string{permission.BundleKey}})}
}
