package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
)

// Fork starts a new session with the same history up to a version, the last
// one unless At says otherwise. The two never affect each other again. There
// is no merge: compare the logs instead. It takes At, WithID and WithName.
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
	o, err := collectOptions("Fork", opts, "At", "WithID", "WithName")
	if err != nil {
		return session.Session{}, err
	}
	source, err := rt.forkSource(ctx, id, o)
	if err != nil {
		rt.bus.emit(SessionLoadFailed{rt.failure(id, err)})
		return session.Session{}, err
	}
	rt.bus.emit(SessionLoaded{About: rt.about(id), Version: source.Version(), Status: source.Status()})
	put := rt.store.Create
	if rt.forks != nil {
		put = rt.forks.Fork
	}
	childID := rt.chooseID(o.id, nil)
	child, err := creation{rt: rt, id: childID, action: "fork", put: put, build: func() (session.Session, error) {
		if source.Status() == session.Deleted {
			return session.Session{}, &session.StatusError{ID: id, Status: session.Deleted, Action: "Fork"}
		}
		s, err := source.Fork(childID, rt.config.NewID(), rt.config.Now())
		if err != nil || o.name == "" {
			return s, err
		}
		return s.WithName(o.name, rt.config.Now())
	}}.run(ctx)
	if err == nil || errors.Is(err, session.ErrAfterSave) {
		rt.bus.emit(SessionForked{About: rt.about(childID), ParentID: id, ParentVersion: source.Version()})
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
