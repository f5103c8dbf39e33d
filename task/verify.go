package task

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// verified checks what success was said to be, and finishes the task or has it
// tried again. A task that is being wrapped up is not tried again; last is its
// last step where that was stopped before its end.
func (x *Executor) verified(ctx context.Context, r *Run, last *session.PlanStep) (goOn bool, err error) {
	row := r.row()
	want := criteria(row)
	if open, _ := unresolved(r.state()); want == nil || len(open) > 0 {
		return false, x.complete(ctx, r, KindSuccess, "completed")
	}
	checking, stop := r.listening(ctx)
	ok, detail, err := x.check(checking, r, *want)
	stop()
	if err != nil {
		return false, err
	}
	attempt := max(row.CurrentAttempt, 1)
	noted := session.Evidence{Kind: want.Type, OK: ok, Detail: detail, At: millis(x.c.Clock())}
	note := func(s *session.TaskState) {
		s.Steps.Evidence = append(slices.Clone(s.Steps.Evidence), noted)
	}
	if ok {
		err := r.append(ctx, edit{changes: []session.Change{event("verification_passed", checked{Attempt: attempt, Message: detail})}, state: note})
		if err == nil && last != nil {
			err = x.stepDone(ctx, r, *last)
		}
		if err != nil {
			return false, err
		}
		return false, x.complete(ctx, r, KindSuccess, "completed")
	}
	wrapsUp := r.state().Loop.WrapUp && (attempt < row.MaxAttempts || last != nil)
	again := attempt < row.MaxAttempts && !wrapsUp
	message := fmt.Sprintf(checkFailedText, attempt, row.MaxAttempts, detail)
	failed := edit{changes: []session.Change{event("verification_failed", checked{Attempt: attempt, MaxAttempts: row.MaxAttempts, Message: detail, WillRetry: &again})}, state: note}
	if wrapsUp {
		return false, x.rest(ctx, r, outcome{status: Interrupted, error: message}, string(StopWrapUp), failed)
	}
	if !again {
		return false, x.rest(ctx, r, outcome{status: Failed, class: ClassVerification, error: message}, "verification_block", failed)
	}
	return true, x.tryAgain(ctx, r, failed, message, detail)
}

// tryAgain adds a step that makes the criteria hold.
func (x *Executor) tryAgain(ctx context.Context, r *Run, failed edit, message, detail string) error {
	plan := *r.state().Plan
	plan.Steps = append(slices.Clone(plan.Steps), session.PlanStep{
		ID: "attempt-" + x.c.NewID(), Description: fmt.Sprintf(checkStepText, detail), Status: stepPending,
	})
	if err := r.ResetForRetry(ctx, message); err != nil {
		return err
	}
	return r.seal(ctx, "task.verify", failed.and(edit{
		changes: []session.Change{event("plan_revised", planEvent{Plan: plan, Reason: "verification_failed"})},
		row:     func(row *session.TaskRow) { row.CurrentAttempt = max(row.CurrentAttempt, 1) + 1 },
	}))
}

// checkCriteria refuses criteria that could never be checked.
func (x *Executor) checkCriteria(c *SuccessCriteria) error {
	if c == nil {
		return nil
	}
	_, checks := x.c.Registry.(Checker)
	switch {
	case c.Type == "shell_command" && strings.TrimSpace(c.Command) == "":
		return &session.InvalidError{Field: "successCriteria.command", Reason: "is empty"}
	case c.Type == "shell_command" && !checks:
		return &session.UnsupportedError{Store: "this program's registry of tools", Ability: "running a command as a criterion"}
	case c.Type == "file_exists" && len(c.Paths) == 0:
		return &session.InvalidError{Field: "successCriteria.filePaths", Reason: "is empty"}
	case c.Type != "shell_command" && c.Type != "file_exists":
		return &session.InvalidError{Field: "successCriteria.type", Reason: fmt.Sprintf("%q is neither shell_command nor file_exists", c.Type)}
	}
	return nil
}

// check is whether criteria hold, and what was seen.
func (x *Executor) check(ctx context.Context, r *Run, c SuccessCriteria) (ok bool, detail string, err error) {
	w := r.workspace()
	if c.Type == "shell_command" {
		checker, able := x.c.Registry.(Checker)
		if !able {
			return false, "commands cannot be run here", nil
		}
		if on := w.Capabilities; on != nil && !on["shell"] {
			return false, "the workspace does not permit shell", nil
		}
		q := permission.Request{Rules: r.session().Permissions().SessionRules}
		if x.c.Rules != nil {
			if q.Policy, err = x.c.Rules.Policy(ctx, w); err != nil {
				return false, "", err
			}
		}
		output, ok, err := checker.Check(tool.WithPermit(ctx, tool.Permit{Denied: q.DeniedPaths()}), w, c.Command)
		if err != nil && ctx.Err() != nil {
			return false, "", context.Cause(ctx)
		}
		if err != nil {
			return false, firstChars(err.Error(), maxEventText), nil
		}
		return ok, firstChars(output, maxEventText), nil
	}
	var missing []string
	for _, p := range c.Paths {
		full := p
		if !filepath.IsAbs(p) {
			full = filepath.Join(filepath.FromSlash(w.Root), p)
		}
		if _, err := os.Stat(full); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return false, "missing: " + strings.Join(missing, ", "), nil
	}
	return true, "all files are there", nil
}
