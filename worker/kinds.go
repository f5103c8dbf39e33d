package worker

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
)

// Chats continues interrupted turns and delivers what waits in inboxes.
func Chats(slots int) Kind {
	return Kind{Slots: slots, Do: func(ctx context.Context, rt *holdfast.Runtime, id string) (bool, error) {
		did, err := rt.RecoverSession(ctx, id)
		return did, ignoreSaved(err)
	}}
}

// Tasks works on tasks that want to be resumed, with an executor for the
// runtime of their tenant.
func Tasks(slots int, executor func(*holdfast.Runtime) (*task.Executor, error)) Kind {
	return Kind{Slots: slots, Do: func(ctx context.Context, rt *holdfast.Runtime, id string) (bool, error) {
		x, err := executor(rt)
		if err != nil {
			return false, err
		}
		return x.RecoverTask(ctx, id)
	}}
}

// Runs continues workflow runs, with what the runtime of their tenant offers.
func Runs(slots int, options func(*holdfast.Runtime) (workflow.ResumeOptions, error)) Kind {
	return Kind{Slots: slots, Do: func(ctx context.Context, rt *holdfast.Runtime, id string) (bool, error) {
		o, err := options(rt)
		if err != nil {
			return false, err
		}
		o.NoWait = true
		before, err := rt.Info(ctx, id)
		if err != nil {
			return false, err
		}
		result, err := workflow.Resume(ctx, rt, id, o)
		return result.Version > before.Version, err
	}}
}

// ignoreSaved drops an error that is part of the session: its execution failed,
// which its record says.
func ignoreSaved(err error) error {
	if errors.Is(err, session.ErrExecutionFailed) || errors.Is(err, session.ErrAfterSave) {
		return nil
	}
	return err
}
