package task

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// stepEnded is what the end of a step's loop means for the step and the task.
// GoOn says that the plan goes on; after is the budget of turns that has to be
// renewed first.
func (x *Executor) stepEnded(ctx context.Context, r *Run, step session.PlanStep, out Outcome, cause error) (goOn bool, after, err error) {
	if out.StopReason == StopTurnLimit {
		return false, cause, r.append(ctx, r.stepBack(string(out.StopReason)))
	}
	now, _ := r.state().Plan.Step(step.ID)
	if now.Status != stepInProgress && now.ID != "" { // feedback has settled it
		goOn, err = x.fedBack(ctx, r, out)
	} else {
		goOn, err = x.stepStopped(ctx, r, step, out, cause)
	}
	return goOn, nil, err
}

func (x *Executor) stepStopped(ctx context.Context, r *Run, step session.PlanStep, out Outcome, cause error) (goOn bool, err error) {
	switch out.StopReason {
	case StopCompleted:
		return true, x.stepDone(ctx, r, step)
	case StopWrapUp:
		return true, r.seal(ctx, "task.step", r.stepBack(string(out.StopReason)))
	case StopPolicy:
		return false, x.rest(ctx, r, outcome{status: Paused}, string(out.StopReason), r.stepBack(string(out.StopReason)))
	case StopLifetime, StopFuse, StopIterationLimit, StopTokens, StopCost:
		return false, x.rest(ctx, r, outcome{status: Paused, class: ClassBudget, error: text(cause)}, string(out.StopReason), r.stepBack(string(out.StopReason)))
	case StopApproval:
		return false, x.rest(ctx, r, outcome{status: Blocked}, "", edit{})
	case StopUserInput:
		return false, x.rest(ctx, r, outcome{status: Paused}, string(out.StopReason), edit{})
	case StopDenied:
		return false, x.paused(ctx, r, cause)
	case StopCancelled:
		return false, x.rest(ctx, r, outcome{status: Cancelled}, "", r.stepBack("cancelled"))
	case StopSoftDeadline:
		if err := x.stepFailed(ctx, r, step, text(cause)); err != nil {
			return false, err
		}
		return false, x.complete(ctx, r, KindTimedOut, string(out.StopReason))
	}
	return x.stepLost(ctx, r, step, out, cause)
}

// fedBack is a step that feedback has moved.
func (x *Executor) fedBack(ctx context.Context, r *Run, out Outcome) (bool, error) {
	switch out.StopReason {
	case StopFeedbackStop:
		return false, x.rest(ctx, r, outcome{status: Paused, error: stoppedByUser}, string(out.StopReason), edit{})
	case StopCancelled:
		return false, x.rest(ctx, r, outcome{status: Cancelled}, "", edit{})
	}
	return true, r.seal(ctx, "task.step", edit{state: stepOver})
}

// paused leaves the task to its user: a call was denied, or nobody answered. The
// step stays as it is.
func (x *Executor) paused(ctx context.Context, r *Run, why error) error {
	return x.rest(ctx, r, outcome{status: Paused, error: why.Error()}, "", edit{state: func(s *session.TaskState) {
		alterCounts(s, func(c *session.StepCounts) { c.Pause = "" })
	}})
}

// stepOver is the state without a running step.
func stepOver(s *session.TaskState) { s.Steps.Current, s.Steps.Counts = nil, nil }

// stepDone completes a step, with a version.
func (x *Executor) stepDone(ctx context.Context, r *Run, step session.PlanStep) error {
	step.Status, step.Error = stepCompleted, ""
	return x.endStep(ctx, r, step, "step_completed")
}

// stepFailed fails a step, with a version.
func (x *Executor) stepFailed(ctx context.Context, r *Run, step session.PlanStep, why string) error {
	step.Status, step.Error = stepFailed, why
	if step.Kind == "verification" {
		step.VerificationAttempts++
	}
	return x.endStep(ctx, r, step, "step_failed")
}

func (x *Executor) endStep(ctx context.Context, r *Run, step session.PlanStep, name string) error {
	if err := x.snapshot(ctx, r, SnapshotEveryStep); err != nil {
		return err
	}
	step.CompletedAt = millis(x.c.Clock())
	came, err := x.outcomeOf(ctx, r, step)
	if err != nil {
		return err
	}
	state := r.state()
	return r.seal(ctx, "task.step", edit{
		changes: append([]session.Change{event(name, stepEvent{Step: step, Error: step.Error})}, bundleOver(r.session())...),
		state: func(s *session.TaskState) {
			stepOver(s)
			recoveryEnded(s, step)
			s.Steps.Outcomes = append(slices.Clone(s.Steps.Outcomes), came)
			failedVerification(step)(s)
		},
		row: func(row *session.TaskRow) { shown(row, &state, step.CompletedAt) },
	})
}

// stepLost is a step whose loop came to no good end: it failed, and is made
// good by another step if that promises something. If not, the task ends.
func (x *Executor) stepLost(ctx context.Context, r *Run, step session.PlanStep, out Outcome, cause error) (bool, error) {
	class, stopReason := classOf(out.StopReason)
	why := cmp.Or(text(cause), string(out.StopReason))
	if err := x.stepFailed(ctx, r, step, why); err != nil {
		return false, err
	}
	if out.StopReason == StopProvider || out.StopReason == StopError {
		planned, kind, err := r.planRecovery(ctx, step, cause)
		if err != nil || planned {
			return planned, err
		}
		if kind == ClassQuota {
			return false, x.rest(ctx, r, outcome{status: Paused, class: ClassQuota, error: why}, string(out.StopReason), r.stepAgain(step.ID))
		}
		if kind == ClassUser {
			class = ClassUser
		}
	}
	return false, x.rest(ctx, r, outcome{status: Completed, class: class, error: why}, stopReason, edit{})
}

// classOf is the class of a failure by why a loop ended, and what the row's
// list of reasons says.
func classOf(reason StopReason) (class, stopReason string) {
	switch reason {
	case StopIterations, StopLLMCalls, StopRecovered, StopContext:
		return ClassBudget, string(reason)
	case StopEmpty:
		return ClassDependency, string(reason)
	case StopProvider:
		return ClassDependency, "dependency_unavailable"
	}
	return ClassTool, "tool_error"
}

// followUpEnded is what the end of an answer to a message means for the task.
func (x *Executor) followUpEnded(ctx context.Context, r *Run, out Outcome, cause error) (goOn bool, err error) {
	reason := string(out.StopReason)
	over := edit{state: func(s *session.TaskState) { s.Steps.Counts = nil }}
	switch out.StopReason {
	case StopCompleted:
		state := r.state()
		over.row = func(row *session.TaskRow) { shown(row, &state, millis(x.c.Clock())) }
		return true, r.seal(ctx, "task.follow_up", over)
	case StopWrapUp:
		return true, r.seal(ctx, "task.follow_up", over)
	case StopApproval:
		return false, x.rest(ctx, r, outcome{status: Blocked}, "", edit{})
	case StopUserInput, StopPolicy, StopFeedbackStop:
		return false, x.rest(ctx, r, outcome{status: Paused}, reason, edit{})
	case StopFeedbackRetry, StopFeedbackSkip:
		return true, r.seal(ctx, "task.follow_up", over)
	case StopTurnLimit, StopLifetime, StopFuse, StopIterationLimit, StopTokens, StopCost:
		return false, x.rest(ctx, r, outcome{status: Paused, class: ClassBudget, error: text(cause)}, reason, edit{})
	case StopDenied:
		return false, x.paused(ctx, r, cause)
	case StopCancelled:
		return false, x.rest(ctx, r, outcome{status: Cancelled}, "", edit{})
	}
	class, stopReason := classOf(out.StopReason)
	if out.StopReason == StopProvider && Classify(cause) == ClassQuota {
		return false, x.rest(ctx, r, outcome{status: Paused, class: ClassQuota, error: text(cause)}, stopReason, edit{})
	}
	return false, x.rest(ctx, r, outcome{status: Failed, class: class, error: cmp.Or(text(cause), reason)}, stopReason, over)
}

// stepBack puts the step that runs back to those that are to run.
func (r *Run) stepBack(reason string) edit {
	plan := orPlan(r.state().Plan)
	for _, step := range plan.Steps {
		if step.Status == stepInProgress {
			step.Status = stepPending
			return edit{changes: []session.Change{event("plan_revised", planEvent{Plan: revised(plan, step), Reason: reason})}}
		}
	}
	return edit{}
}

// stepAgain makes a step that failed pending again.
func (r *Run) stepAgain(id string) edit {
	plan := r.state().Plan
	step, ok := plan.Step(id)
	if !ok {
		return edit{}
	}
	step.Status, step.CompletedAt, step.Error = stepPending, 0, ""
	return edit{changes: []session.Change{event("plan_revised", planEvent{Plan: revised(plan, step), Reason: "retry"})}}
}

// maxOutcome is how much of a step's last words is kept as its outcome.
const maxOutcome = 1000

// outcomeOf is what came of a step: its last words, and the files it changed.
func (x *Executor) outcomeOf(ctx context.Context, r *Run, step session.PlanStep) (session.StepOutcome, error) {
	o := session.StepOutcome{StepID: step.ID, Description: step.Description, Status: step.Status, Files: []string{}, Summary: step.Error}
	state := r.state()
	if last := state.Said.Answer; last != nil && step.Error == "" {
		o.Summary = firstChars(strings.TrimSpace(*last), maxOutcome)
	}
	running := ""
	read := func(c session.Change) {
		e, ok := c.(session.TaskEvent)
		if !ok {
			return
		}
		switch e.Name {
		case "step_started":
			running = stepOf(e)
		case "file_created", "file_modified", "file_deleted":
			if p := pathIn(e); running == step.ID && !slices.Contains(o.Files, p) {
				o.Files = append(o.Files, p)
			}
		}
	}
	finishing, done := store.Finish(ctx)
	defer done()
	for e, err := range x.rt.Log(finishing, r.ID(), state.Loop.WindowStart) {
		if err != nil {
			return o, err
		}
		read(e.Change)
	}
	for _, record := range session.Unsaved(r.session()) { // not in the log yet
		read(record.Change)
	}
	return o, nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
