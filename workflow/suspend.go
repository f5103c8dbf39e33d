package workflow

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Suspend lets nothing run on a run until it is resumed. Where somebody works
// on it that one is asked to stop, and pending says that this may take a
// moment. A run that is completed is a StatusError.
func Suspend(ctx context.Context, rt *holdfast.Runtime, id string) (pending bool, err error) {
	err = rt.Hold(ctx, id, func(ctx context.Context, h *holdfast.Hold) error {
		row := h.Session().Info().Workflow
		switch {
		case row == nil:
			return &session.InvalidError{Field: "session", Reason: "it is no workflow run"}
		case row.Status == string(StatusCompleted):
			return &session.StatusError{ID: id, Status: session.Completed, Action: "suspend"}
		}
		changes := []session.Change{session.StatusChanged{Status: session.Suspended}}
		if row.Status == string(StatusRunning) {
			paused := *row
			paused.Status = string(StatusPaused)
			changes = append(changes, session.WorkflowRowChanged{Workflow: paused})
		}
		_, err := h.Execute(ctx, seal{"workflow.suspend", changes, time.Now})
		return err
	}, holdfast.OnBusy(holdfast.Reject))
	var busy *session.BusyError
	if !errors.As(err, &busy) {
		return false, err
	}
	_, err = rt.Post(ctx, id, store.Item{Kind: store.ItemSuspend})
	return err == nil, err
}

// FileName is a name as a part of a path that every file system takes, in the
// way artifacts are named.
func FileName(name string) string { return sanitised(name) }
