package session

import (
	"slices"
	"time"
)

// Statuses of tasks and workflow runs that somebody should work on. The packages
// that write them say what they mean.
var (
	tasksAtWork   = []string{"planning", "executing"}
	tasksWaiting  = []string{"pending", "queued", "interrupted"}
	runAtWork     = "running"
	reasonRestart = "restart" // a task was interrupted because its process ended
)

// DueAt returns when somebody should work on the session if nobody holds it:
// since when it is interrupted or waits to be started, or when the first call
// that it waits for expires. False: there is nothing to do, or a person acts
// first. The time stays the same while work goes on. Inboxes are not looked at.
func (s Session) DueAt() (time.Time, bool) {
	b := s.b
	if b.info.Status != Active {
		return time.Time{}, false
	}
	switch b.info.Kind {
	case KindTask:
		if b.taskIsDue() {
			return b.info.CreatedAt, true
		}
	case KindWorkflow:
		if b.info.Workflow != nil && b.info.Workflow.Status == runAtWork {
			return b.info.CreatedAt, true
		}
	default:
		e := b.st.Execution
		switch {
		case e.Open() && (e.Status != ExecutionWaits || !slices.ContainsFunc(b.st.Pending, PendingCall.Waiting)):
			return e.StartedAt, true
		case b.live > 0:
			return b.info.UpdatedAt, true
		}
	}
	return b.firstExpiry()
}

func (b *body) taskIsDue() bool {
	row, state := b.info.Task, b.st.Task
	if row == nil || row.CompletedAt != 0 {
		return false
	}
	if slices.Contains(tasksAtWork, row.Status) {
		return true
	}
	if !slices.Contains(tasksWaiting, row.Status) || state == nil || !state.Settings.AutoResume {
		return false
	}
	n := len(row.StopReasons)
	return row.Status != "interrupted" || n > 0 && row.StopReasons[n-1] == reasonRestart
}

// firstExpiry returns when the first of the calls that wait expires.
func (b *body) firstExpiry() (first time.Time, found bool) {
	for _, p := range b.st.Pending {
		if p.Waiting() && p.ExpiresAt != nil && (!found || p.ExpiresAt.Before(first)) {
			first, found = *p.ExpiresAt, true
		}
	}
	return first, found
}
