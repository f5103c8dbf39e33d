package task

import "github.com/holdfast-dev/holdfast/session"

// StepPolicy and FollowUpPolicy are how the executor has steps and messages
// worked on.
func StepPolicy(r *Run, step session.PlanStep) Policy  { return r.stepPolicy(step) }
func FollowUpPolicy(r *Run, f session.FollowUp) Policy { return r.followUpPolicy(f) }
