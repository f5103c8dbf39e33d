package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
)

// Execute loads a session, runs an action on it and saves the result as one
// new version, which it returns. It takes IfVersion, OnBusy, IdempotencyKey
// and Stream.
//
// After most errors nothing was saved and the session that comes with the
// error is the one that was loaded (or zero, if it could not be). The
// exceptions say so in their text: AfterSaveError and ExecutionError come with
// the session that was saved. InterruptedError means that work was interrupted
// and can be continued.
func (rt *Runtime) Execute(ctx context.Context, id string, action Action, opts ...Option) (_ session.Session, err error) {
	defer func() { err = rt.redactError(err) }()
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	x, err := rt.prepare(id, action, opts)
	if err != nil {
		rt.bus.emit(SessionLoadFailed{rt.failure(id, err)})
		return session.Session{}, err
	}
	if s, found, err := x.replay(ctx); found || err != nil {
		return s, err
	}
	s, err := x.attempt(ctx)
	if err != nil || !runsAgent(action) {
		return s, err
	}
	if s, err = x.deliver(ctx, s); err != nil {
		return s, err
	}
	if err := rt.respondToParent(ctx, s); err != nil { // the answer is saved; Recover tries again
		rt.config.Logger.Warn("parent not told", "session", id, "error", rt.redactText(err.Error()))
	}
	return s, nil
}

// prepare checks everything that can be checked before a session is touched.
func (rt *Runtime) prepare(id string, action Action, opts []Option) (*execution, error) {
	o, err := collectOptions("Execute", opts, "IfVersion", "OnBusy", "IdempotencyKey", "Stream")
	if err != nil {
		return nil, err
	}
	ref, err := rt.ref(id)
	if err != nil {
		return nil, err
	}
	if err := checkAction(action, rt.config.Limits); err != nil {
		return nil, err
	}
	_, sends := action.(sender)
	if o.busy == Enqueue && !sends {
		return nil, &session.InvalidError{Field: "OnBusy", Reason: "only SendMessage can be enqueued, not " + action.Name()}
	}
	if (o.busy == Enqueue || o.busy == Interrupt) && rt.inboxes == nil {
		return nil, rt.unsupported("an inbox")
	}
	x := &execution{rt: rt, ref: ref, action: action, opts: o}
	x.keys, err = x.findKeys()
	return x, err
}

// attempt runs the pipeline, and once more under the lease if it was overtaken:
// if somebody else took the session between the load and the first write.
func (x *execution) attempt(ctx context.Context) (session.Session, error) {
	s, err := x.runWith(ctx, x.rt.leaseNeed(x.action))
	if x.overtaken {
		s, err = x.runWith(ctx, leaseNow)
	}
	return s, err
}

// runWith waits for access to the session and runs the pipeline.
func (x *execution) runWith(ctx context.Context, need leaseNeed) (session.Session, error) {
	ctx, a, err := x.rt.enterSession(ctx, x.ref, need, x.opts.busy)
	if x.opts.busy == Enqueue && errors.Is(err, session.ErrBusy) {
		return x.enqueue(ctx)
	}
	if err != nil {
		return session.Session{}, x.loadFailed(ctx, err)
	}
	x.access = a
	defer a.release(ctx)
	s, err := x.run(ctx)
	if len(x.keys) > 0 && !x.overtaken && errors.Is(err, session.ErrConflict) { // the same call may have won elsewhere
		if again, found, keyErr := x.replay(ctx); found {
			return again, keyErr
		}
	}
	return s, err
}
