package task

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// stepEnded is what the end of a step's loop means for the step and the task.
// GoOn says that the plan goes on.
func (x *Executor) stepEnded(ctx context.Context, r *Run, step session.PlanStep, out Outcome, cause error) (goOn bool, err error) {
	now, _ := r.state().Plan.Step(step.ID)
	if now.Status != stepInProgress && now.ID != "" { // feedback has settled it
		return x.fedBack(ctx, r, out)
	}
	switch out.StopReason {
	case StopCompleted:
		return true, x.stepDone(ctx, r, step)
	case StopWrapUp:
		if err := x.stepDone(ctx, r, step); err != nil {
			return false, err
		}
		return false, x.complete(ctx, r, wrappedUp(r.state().Plan), string(StopWrapUp))
	case StopTurnLimit:
		if err := r.append(ctx, r.stepBack(string(out.StopReason))); err != nil {
			return false, err
		}
		return false, cause
	case StopPolicy:
		return false, x.rest(ctx, r, wish{status: Paused}, string(out.StopReason), r.stepBack(string(out.StopReason)))
	case StopLifetime, StopFuse, StopIterationLimit, StopTokens, StopCost:
		return false, x.rest(ctx, r, wish{status: Paused, class: ClassBudget, error: text(cause)}, string(out.StopReason), r.stepBack(string(out.StopReason)))
	case StopApproval:
		return false, x.rest(ctx, r, wish{status: Blocked}, "", move{})
	case StopUserInput:
		return false, x.rest(ctx, r, wish{status: Paused}, string(out.StopReason), move{})
	case StopCancelled:
		if cause == nil {
			cause = errCancelled
		}
		return false, cause
	case StopEndedElsewhere:
		return false, nil
	case StopLeaseLost:
		return false, cause
	case StopSoftDeadline:
		if err := x.stepFailed(ctx, r, step, text(cause)); err != nil {
			return false, err
		}
		return false, x.complete(ctx, r, KindTimedOut, string(out.StopReason))
	}
	return x.stepLost(ctx, r, step, out, cause)
}

// wrappedUp is the kind of result a task has that was asked to finish.
func wrappedUp(p *session.Plan) string {
	if p == nil || pendingSteps(p) {
		return KindPartial
	}
	return KindSuccess
}

// fedBack is a step that feedback has moved.
func (x *Executor) fedBack(ctx context.Context, r *Run, out Outcome) (bool, error) {
	switch out.StopReason {
	case StopFeedbackStop:
		return false, x.rest(ctx, r, wish{status: Paused, error: stoppedByUser}, string(out.StopReason), move{})
	case StopCancelled:
		return false, errCancelled
	}
	return true, r.seal(ctx, "task.step", move{state: stepOver})
}

// stepOver is the state without a running step.
func stepOver(s *session.TaskState) { s.Steps.Current, s.Steps.Counts = nil, nil }

// stepDone completes a step, with a version.
func (x *Executor) stepDone(ctx context.Context, r *Run, step session.PlanStep) error {
	if err := x.snapshot(ctx, r, SnapshotEveryStep); err != nil {
		return err
	}
	now := millis(x.c.Clock())
	step.Status, step.CompletedAt, step.Error = stepCompleted, now, ""
	came, err := x.outcomeOf(ctx, r, step)
	if err != nil {
		return err
	}
	state := r.state()
	return r.seal(ctx, "task.step", move{
		changes: append([]session.Change{event("step_completed", map[string]any{"step": step})}, bundleOver(state)...),
		state: func(s *session.TaskState) {
			stepOver(s)
			recoveryEnded(s, step, true)
			s.Steps.Outcomes = append(slices.Clone(s.Steps.Outcomes), came)
		},
		row: func(row *session.TaskRow) { shown(row, &state, now) },
	})
}

// stepFailed fails a step, with a version.
func (x *Executor) stepFailed(ctx context.Context, r *Run, step session.PlanStep, why string) error {
	if err := x.snapshot(ctx, r, SnapshotEveryStep); err != nil {
		return err
	}
	now := millis(x.c.Clock())
	step.Status, step.CompletedAt, step.Error = stepFailed, now, why
	if step.Kind == "verification" {
		step.VerificationAttempts++
	}
	came, err := x.outcomeOf(ctx, r, step)
	if err != nil {
		return err
	}
	state := r.state()
	return r.seal(ctx, "task.step", move{
		changes: append([]session.Change{event("step_failed", map[string]any{"step": step, "error": why})}, bundleOver(state)...),
		state: func(s *session.TaskState) {
			stepOver(s)
			recoveryEnded(s, step, false)
			s.Steps.Outcomes = append(slices.Clone(s.Steps.Outcomes), came)
			if step.Kind == "verification" && !s.Steps.FailedOptional.Has(step.ID) {
				s.Steps.FailedRequired = s.Steps.FailedRequired.With(step.ID)
			}
		},
		row: func(row *session.TaskRow) { shown(row, &state, now) },
	})
}

// stepLost is a step whose loop came to no good end: it failed, and is made
// good by another step if that promises something. If not, the task ends.
func (x *Executor) stepLost(ctx context.Context, r *Run, step session.PlanStep, out Outcome, cause error) (bool, error) {
	class, stopReason := classOf(out.StopReason)
	why := orText(text(cause), string(out.StopReason))
	if err := x.stepFailed(ctx, r, step, why); err != nil {
		return false, err
	}
	if out.StopReason == StopProvider || out.StopReason == StopError {
		planned, kind, err := r.planRecovery(ctx, step, cause)
		if err != nil || planned {
			return planned, err
		}
		if kind == ClassQuota {
			return false, x.rest(ctx, r, wish{status: Paused, class: ClassQuota, error: why}, string(out.StopReason), r.stepAgain(step.ID))
		}
		if kind == ClassUser {
			class = ClassUser
		}
	}
	return false, x.rest(ctx, r, wish{status: Completed, class: class, error: why}, stopReason, move{})
}

// classOf is the class of a failure by why a loop ended, and what the row's
// list of reasons says.
func classOf(reason StopReason) (class, stopReason string) {
	switch reason {
	case StopIterations, StopLLMCalls, StopRecovered, StopRepeated, StopContext:
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
	over := move{state: func(s *session.TaskState) { s.Steps.Counts = nil }}
	switch out.StopReason {
	case StopCompleted:
		state := r.state()
		over.row = func(row *session.TaskRow) { shown(row, &state, millis(x.c.Clock())) }
		return true, r.seal(ctx, "task.follow_up", over)
	case StopWrapUp:
		return false, x.complete(ctx, r, wrappedUp(r.state().Plan), reason)
	case StopApproval:
		return false, x.rest(ctx, r, wish{status: Blocked}, "", move{})
	case StopUserInput, StopPolicy, StopFeedbackStop:
		return false, x.rest(ctx, r, wish{status: Paused}, reason, move{})
	case StopFeedbackRetry, StopFeedbackSkip:
		return true, r.seal(ctx, "task.follow_up", over)
	case StopTurnLimit, StopLifetime, StopFuse, StopIterationLimit, StopTokens, StopCost:
		return false, x.rest(ctx, r, wish{status: Paused, class: ClassBudget, error: text(cause)}, reason, move{})
	case StopCancelled:
		if cause == nil {
			cause = errCancelled
		}
		return false, cause
	case StopEndedElsewhere:
		return false, nil
	case StopLeaseLost:
		return false, cause
	}
	class, stopReason := classOf(out.StopReason)
	if out.StopReason == StopProvider && Classify(cause) == ClassQuota {
		return false, x.rest(ctx, r, wish{status: Paused, class: ClassQuota, error: text(cause)}, stopReason, move{})
	}
	return false, x.rest(ctx, r, wish{status: Failed, class: class, error: orText(text(cause), reason)}, stopReason, over)
}

// stepBack puts the step that runs back to those that are to run.
func (r *Run) stepBack(reason string) move {
	plan := r.state().Plan
	if plan == nil {
		return move{}
	}
	for _, step := range plan.Steps {
		if step.Status == stepInProgress {
			step.Status = stepPending
			return move{changes: []session.Change{event("plan_revised", map[string]any{"plan": revised(plan, step), "reason": reason})}}
		}
	}
	return move{}
}

// stepAgain makes a step that failed pending again.
func (r *Run) stepAgain(id string) move {
	plan := r.state().Plan
	step, ok := plan.Step(id)
	if !ok {
		return move{}
	}
	step.Status, step.CompletedAt, step.Error = stepPending, 0, ""
	return move{changes: []session.Change{event("plan_revised", map[string]any{"plan": revised(plan, step), "reason": "retry"})}}
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
	for e, err := range x.rt.Log(context.WithoutCancel(ctx), r.ID(), state.Loop.WindowStart) {
		if err != nil {
			return o, err
		}
		told, ok := e.Change.(session.TaskEvent)
		if !ok {
			continue
		}
		switch told.Name {
		case "step_started":
			running = stepOf(told)
		case "file_created", "file_modified", "file_deleted":
			if p := pathIn(told); running == step.ID && !slices.Contains(o.Files, p) {
				o.Files = append(o.Files, p)
			}
		}
	}
	return o, nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
