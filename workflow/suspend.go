package workflow

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Suspend keeps a run from continuing until it is resumed. A process that works
// on it is asked to stop; pending says that this may take a moment. A completed
// run is a StatusError.
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

// FileName makes a name a part of a path that every file system takes, as names
// of artifacts are made.
func FileName(name string) string { return safeName(name) }
