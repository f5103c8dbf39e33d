package cli

import (
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// taskJSON is a task as --json prints it: its times are written as those of
// sessions are.
type taskJSON struct {
	task.Row
	CreatedAt   time.Time             `json:"createdAt"`
	UpdatedAt   time.Time             `json:"updatedAt"`
	StartedAt   time.Time             `json:"startedAt,omitzero"`
	CompletedAt time.Time             `json:"completedAt,omitzero"`
	Pending     []session.PendingCall `json:"pending,omitempty"` // whole, for whoever is to respond
}

func newTaskJSON(row task.Row) taskJSON {
	at := func(millis int64) time.Time {
		if millis == 0 {
			return time.Time{}
		}
		return time.UnixMilli(millis).UTC()
	}
	return taskJSON{
		Row: row, CreatedAt: at(row.CreatedAt), UpdatedAt: at(row.UpdatedAt), StartedAt: at(row.StartedAt), CompletedAt: at(row.CompletedAt),
	}
}
