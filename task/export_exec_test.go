package task

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
)

// CheckMove is what a row may become.
func CheckMove(before, after session.TaskRow) error { return checkMove("t1", before, after) }

// Wish is what a task is asked to come to.
type Wish struct{ Status, TerminalStatus, Class, Error string }

// Settled is what becomes of a wish, given what the row has to show.
func (w Wish) Settled(row session.TaskRow) Wish {
	got := outcome{w.Status, w.TerminalStatus, w.Class, w.Error}.settled(row)
	return Wish{got.status, got.terminalStatus, got.class, got.error}
}

// Gated is a wish after the look at failed steps.
func (w Wish) Gated(s session.TaskState) Wish {
	got := outcome{w.Status, w.TerminalStatus, w.Class, w.Error}.gated(s)
	return Wish{got.status, got.terminalStatus, got.class, got.error}
}

// StatusOfKind is the terminal status and class of a kind of result.
func StatusOfKind(kind, class string) (string, string) { return statusOfKind(kind, class) }

// PlanIn finds a plan in an answer.
func PlanIn(text string) (session.Plan, bool) { return planIn(text) }

// Executing moves a task that is pending to work, and does none.
func (r *Run) Executing(ctx context.Context) error {
	return r.append(ctx, edit{row: func(row *session.TaskRow) { row.Status = Executing }})
}

// Place is where the task works.
func (r *Run) Place() Workspace { return r.workspace() }

// Perform works on a task that was pending.
func (r *Run) Perform(ctx context.Context) error {
	if err := r.Executing(ctx); err != nil {
		return err
	}
	return r.x.perform(ctx, r)
}

// Trouble is a state with everything that belongs to one workspace.
func (r *Run) Trouble(ctx context.Context) error {
	return r.append(ctx, edit{state: func(s *session.TaskState) {
		scope := "global"
		s.Recovery.DisabledScope, s.Loop.Advice = &scope, "try another way"
		s.Loop.Blocked, s.Loop.BlockedText = &session.Signature{Tool: "x"}, &scope
		s.Tools.PageFailure, s.Loop.LifetimeTurns = &session.PageFailed{Tool: "x"}, 7
	}})
}
