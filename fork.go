package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
)

// Fork starts a new session with the same history up to a version, the last
// one unless At says otherwise. The two never affect each other again. There
// is no merge: compare the logs instead. It takes At, WithID, WithName, WithChanges and
// IdempotencyKey: the same request under the same key returns the first fork.
//
// The fork is active, has version 1, a fresh agent id and no execution, name
// or expiry of its parent's. An open tail is never part of it. AfterLoad hooks
// see the source and may refuse; what they change is not forked.
func (rt *Runtime) Fork(ctx context.Context, id string, opts ...Option) (session.Session, error) {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	o, err := collectOptions("Fork", opts, "At", "WithID", "WithName", "WithChanges", "IdempotencyKey")
	if err != nil {
		return session.Session{}, err
	}
	c := creation{rt: rt, action: "fork", put: rt.store.Create}
	if rt.forks != nil {
		c.put = rt.forks.Fork
	}
	request := []any{id, o.at, o.name}
	if len(o.changes) > 0 {
		request = append(request, o.changes)
	}
	if c.id, c.keys, err = rt.createKeys(o, "fork", request); err != nil {
		return session.Session{}, err
	}
	if s, found, err := c.replay(ctx); found || err != nil {
		return s, err
	}
	source, err := rt.forkSource(ctx, id, o)
	if err != nil {
		rt.bus.emit(SessionLoadFailed{rt.failure(id, err)})
		return session.Session{}, err
	}
	rt.bus.emit(SessionLoaded{About: rt.about(id), Version: source.Version(), Status: source.Status()})
	c.build = func() (session.Session, error) {
		if source.Status() == session.Deleted {
			return session.Session{}, &session.StatusError{ID: id, Status: session.Deleted, Action: "Fork"}
		}
		if err := rt.config.Limits.checkFork(source.Info()); err != nil {
			return session.Session{}, err
		}
		s, err := source.Fork(c.id, rt.config.NewID(), rt.config.Now())
		if err == nil && len(o.changes) > 0 {
			s, err = s.With(rt.config.Now(), o.changes...)
		}
		if err != nil || o.name == "" {
			return s, err
		}
		return s.WithName(o.name, rt.config.Now())
	}
	child, err := c.run(ctx)
	if err == nil || errors.Is(err, session.ErrAfterSave) {
		rt.bus.emit(SessionForked{About: rt.about(c.id), ParentID: id, ParentVersion: source.Version()})
	}
	return child, err
}

// forkSource is the version to fork, as it was saved.
func (rt *Runtime) forkSource(ctx context.Context, id string, o options) (session.Session, error) {
	ref, err := rt.ref(id)
	if err != nil {
		return session.Session{}, err
	}
	s, err := rt.loadAt(ctx, ref, o)
	if err != nil {
		return session.Session{}, err
	}
	_, err = rt.runHooks(ctx, session.AfterLoad, s)
	return s, err
}
