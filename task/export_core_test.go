package task

import "github.com/holdfast-dev/holdfast/session"

// PolicyOfStep is how the executor has a step worked on.
func PolicyOfStep(r *Run, step session.PlanStep) Policy { return r.stepPolicy(step) }
