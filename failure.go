package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// loadFailed reports a session that could not be loaded or entered. Nothing was
// changed.
func (x *execution) loadFailed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, session.ErrFenced) {
		err = cause
	}
	if x.loadedEmitted { // it was loaded before somebody else took it
		x.rt.bus.emit(SessionActionFailed{Failure: x.rt.failure(x.ref.ID, err), Action: x.action.Name(), Stage: hookStage(err)})
		return err
	}
	x.rt.bus.emit(SessionLoadFailed{x.rt.failure(x.ref.ID, err)})
	return err
}

// actionFailed reports an action that failed or was refused. What it had written to the
// tail is discarded, so that the state is that of the last version. The tail
// stays open, to be continued, after an interruption, a lost lease or an error
// of the store, inside a Hold, and whenever a tool has started: the record of
// what may have taken effect outlives every refusal, so that nothing runs twice.
func (x *execution) actionFailed(ctx context.Context, loaded session.Session, env *Environment, err error) error {
	err = x.explainEnd(ctx, loaded, env, err)
	var tail int64
	switch {
	case env.base == session.Base(loaded), errors.Is(context.Cause(ctx), session.ErrFenced):
	case env.writeFailed, env.readFailed, env.toolStarted, x.interrupted(err), x.held != nil: // what cannot be written to cannot be discarded either
		tail = env.base
	default:
		if discardErr := x.discard(ctx, loaded, env); discardErr != nil {
			tail = env.base
			err = fmt.Errorf("%w (its changes %d to %d could not be discarded and are still open: %w)", err, session.Base(loaded)+1, env.base, discardErr)
		}
	}
	x.rt.bus.emit(SessionActionFailed{
		Failure: x.rt.failure(x.ref.ID, err), Action: x.action.Name(), Stage: hookStage(err), TailSeq: tail,
	})
	return err
}

// interrupted reports that this session's own work was interrupted.
func (x *execution) interrupted(err error) bool {
	var own *session.InterruptedError
	return errors.As(err, &own) && own.ID == x.ref.ID
}

// explainEnd returns what the end of a context means: a lost lease is a
// FencedError, anything else an interruption, which can be continued where
// something was written.
func (x *execution) explainEnd(ctx context.Context, loaded session.Session, env *Environment, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil, x.interrupted(err):
		return err
	case errors.Is(cause, session.ErrFenced):
		return cause
	case !errors.Is(err, ctx.Err()) && !errors.Is(err, cause):
		return err
	case env.base == session.Base(loaded) && !loaded.HasTail() && !loaded.Running():
		return fmt.Errorf("%s was interrupted and changed nothing: %w", x.action.Name(), cause)
	}
	return &session.InterruptedError{ID: x.ref.ID, Seq: env.base, Err: cause}
}

func (x *execution) discard(ctx context.Context, loaded session.Session, env *Environment) error {
	rt := x.rt
	s, err := session.DiscardTail(loaded, session.Base(loaded)+1, env.base, rt.config.Now())
	if err != nil {
		return err
	}
	finishing, done := store.Finish(ctx)
	defer done()
	_, err = rt.tails.Append(finishing, s, store.Append{Fence: x.access.fence})
	return err
}

func (c creation) createFailed(err error) error {
	c.rt.bus.emit(SessionActionFailed{Failure: c.rt.failure(c.id, err), Action: c.action, Stage: hookStage(err)})
	return err
}

// afterSaveFailed reports a hook that failed when the session was saved.
func (rt *Runtime) afterSaveFailed(saved session.Session, err error) error {
	after := &session.AfterSaveError{ID: saved.ID(), Version: saved.Version(), Err: err}
	var hook *session.HookError
	if errors.As(err, &hook) {
		after.Stage, after.Hook, after.Err = hook.Stage, hook.Hook, hook.Err
	}
	rt.bus.emit(SessionSaved{About: rt.about(saved.ID()), Version: saved.Version(), Status: saved.Status()})
	rt.bus.emit(SessionAfterSaveFailed{Failure: rt.failure(saved.ID(), after), Stage: after.Stage, Version: saved.Version()})
	return after
}

func hookStage(err error) session.Stage {
	var hook *session.HookError
	if errors.As(err, &hook) {
		return hook.Stage
	}
	return ""
}

// joinFailures returns the execution's failure, the other error, both or nil.
func joinFailures(failed *session.ExecutionError, err error) error {
	switch {
	case failed == nil:
		return err
	case err == nil:
		return failed
	}
	return errors.Join(failed, err)
}
