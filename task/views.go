package task

import "github.com/holdfast-dev/holdfast/session"

// Output is what was said: the window, and what was said last.
type Output struct {
	Messages []session.Message `json:"messages"`
	session.TaskTranscript
}

// VerificationState is what was checked, and by whom.
type VerificationState struct {
	session.TaskVerification
	session.TaskWorker
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
	return Output{Messages: r.session().WindowMessages(), TaskTranscript: r.state().Transcript}
}

// Verification is what was checked.
func (r *Run) Verification() VerificationState {
	s := r.state()
	return VerificationState{TaskVerification: s.Verification, TaskWorker: s.Worker}
}

// Recovery is what was done about failures.
func (r *Run) Recovery() session.TaskRecovery { return r.state().Recovery }

// Permissions is what the task may do.
func (r *Run) Permissions() session.Permissions { return r.state().Permissions }
