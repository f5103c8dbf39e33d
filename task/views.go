package task

import "github.com/holdfast-dev/holdfast/session"

// Output is what was said: the window, and what was said last.
type Output struct {
	Messages []session.Message `json:"messages"`
	session.TaskSaid
}

// The views are copies. They may be looked at after the run has ended, and
// show the task as the run left it.

// Project is what the row shows of the state.
func (r *Run) Project() session.TaskProjection {
	s := r.state()
	return s.Projection()
}

// Output is what was said.
func (r *Run) Output() Output {
	return Output{Messages: r.session().WindowMessages(), TaskSaid: r.state().Said}
}

// Verification is what became of the steps, and what was checked.
func (r *Run) Verification() session.TaskSteps { return r.state().Steps }

// Recovery is what was done about failures.
func (r *Run) Recovery() session.TaskRecovery { return r.state().Recovery }

// Permissions is what the task may do.
func (r *Run) Permissions() session.Permissions { return r.session().Permissions() }
