package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// This file is the only way a session changes. Read the two pipelines below
// from top to bottom; failure.go says what a failing step leaves behind.

// creation is one run of the create pipeline.
type creation struct {
	rt     *Runtime
	id     string
	action string // recorded with the commit: create, fork or import
	keys   []store.Key
	build  func() (session.Session, error)
	put    func(context.Context, session.Session, store.Commit) (session.Session, error)
}

// run stores a new session as version 1.
func (c creation) run(ctx context.Context) (_ session.Session, err error) {
	rt := c.rt
	defer func() { err = rt.redactError(err) }()
	if s, found, err := c.replay(ctx); found || err != nil {
		return s, err
	}
	// 1, 2. Validate and build: version 0, nothing stored yet.
	s, err := c.build()
	if err != nil {
		return session.Session{}, c.createFailed(err)
	}
	// 3, 4. Hooks before anything is stored.
	for _, stage := range []session.Stage{session.BeforeCreate, session.BeforeSave} {
		if s, err = rt.runHooks(ctx, stage, s); err != nil {
			return session.Session{}, c.createFailed(err)
		}
	}
	if s.Info().Fork == nil { // a fork brings nothing new
		if err := rt.config.Limits.checkNew(s.SystemPrompt(), s.Messages(), s.Metadata()); err != nil {
			return session.Session{}, c.createFailed(err)
		}
	}
	if s, err = rt.redactSession(s); err != nil {
		return session.Session{}, c.createFailed(err)
	}
	// 5. Store.
	commit := rt.commit(c.action)
	commit.Keys = c.keys
	saved, err := c.put(ctx, s, commit)
	if errors.Is(err, session.ErrConflict) { // the same request may have won elsewhere
		if s, found, keyErr := c.replay(ctx); found || keyErr != nil {
			return s, keyErr
		}
	}
	if err != nil {
		rt.bus.emit(SessionSaveFailed{rt.failure(c.id, err)})
		return session.Session{}, err
	}
	// 6, 7. Hooks after: what they change is in the returned value only, and
	// their failure leaves the session saved.
	returned := saved
	for _, stage := range []session.Stage{session.AfterSave, session.AfterCreate} {
		if returned, err = rt.runHooks(ctx, stage, returned); err != nil {
			return saved, rt.afterSaveFailed(saved, err)
		}
	}
	// 8. Events.
	rt.wakeEmbedder()
	rt.bus.emit(SessionSaved{About: rt.about(c.id), Version: saved.Version(), Status: saved.Status()})
	return returned, nil
}

// execution is one run of the execute pipeline.
type execution struct {
	rt     *Runtime
	ref    store.Ref
	action Action
	opts   options
	keys   []store.Key
	access *access

	// held is the session of the Hold that this runs in, which owns the lease
	// and the tail. Nil outside of one.
	held *session.Session
	// saved is what was saved, without what hooks changed afterwards.
	saved session.Session

	// overtaken says that somebody else took the session between the load and
	// the first write, which was to take the lease. Nothing has happened yet that
	// anybody could notice but the event of the load.
	overtaken     bool
	loadedEmitted bool // SessionLoaded was emitted

	// repeats says that an earlier call with the same key is not over: its
	// message is written already.
	repeats bool
}

// run executes the action and stores one version. The caller has taken the
// lease where one is needed (1) and gives it back.
func (x *execution) run(ctx context.Context) (session.Session, error) {
	rt, env := x.rt, &Environment{x: x}
	// 2. Load head, window and open tail. Nobody else has written in a Hold.
	loaded, err := x.load(ctx)
	if err != nil {
		return session.Session{}, x.loadFailed(ctx, err)
	}
	if s, done, err := x.replay(ctx); done || err != nil {
		return s, err
	}
	env.base, env.info, env.policy = session.Base(loaded), loaded.Info(), loaded.Definition().Memory
	// 3. Hooks; 4. event.
	s, err := rt.runHooks(ctx, session.AfterLoad, loaded)
	if err != nil {
		return session.Session{}, x.loadFailed(ctx, err)
	}
	if !x.loadedEmitted {
		rt.bus.emit(SessionLoaded{About: rt.about(x.ref.ID), Version: s.Version(), Status: s.Status()})
		x.loadedEmitted = true
	}
	before := s.Status()
	// 5. May this be done to a session of this version, kind and status?
	if err := x.checkPermitted(s); err != nil {
		return loaded, x.actionFailed(ctx, loaded, env, err)
	}
	// 6. The action. A failed execution is a result worth saving.
	s, failed, err := x.act(ctx, env, s)
	if x.overtaken = x.wasOvertaken(env, err); x.overtaken {
		return loaded, err
	}
	if err != nil {
		return loaded, x.actionFailed(ctx, loaded, env, err)
	}
	// 7. Hooks.
	if s, err = rt.runHooks(ctx, session.AfterAction, s); err != nil {
		return loaded, x.actionFailed(ctx, loaded, env, err)
	}
	// 8. Prune, and a title. A failure leaves the session as it was and refuses nothing.
	s = rt.addTitle(rt.prune(ctx, s, loaded))
	// 9. Hooks.
	if s, err = rt.runHooks(ctx, session.BeforeSave, s); err != nil {
		return loaded, x.actionFailed(ctx, loaded, env, err)
	}
	if changesMetadata(s) {
		if err := rt.config.Limits.checkMetadata(s.Metadata()); err != nil {
			return loaded, x.actionFailed(ctx, loaded, env, err)
		}
	}
	if s, err = rt.redactSession(s); err != nil {
		return loaded, x.actionFailed(ctx, loaded, env, err)
	}
	// 10. Event; the versions are equal because nothing is saved yet.
	rt.bus.emit(SessionActionExecuted{
		About: rt.about(x.ref.ID), Action: x.action.Name(), BeforeVersion: loaded.Version(), AfterVersion: s.Version(),
		BeforeStatus: before, AfterStatus: s.Status(),
	})
	rt.noteFacts(ctx, loaded, s)
	// 11. Save: version and fence checked, tail sealed, lease ended, at once.
	// The tail stays open when it fails.
	saved, err := x.save(ctx, env, s)
	if err != nil && env.base > session.Base(loaded) && !errors.Is(err, session.ErrUnknownOutcome) && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrFenced) {
		err = fmt.Errorf("%w (what was written up to change %d is kept and can be continued)", err, env.base)
	}
	if err != nil {
		rt.bus.emit(SessionSaveFailed{rt.failure(x.ref.ID, err)})
		return loaded, err
	}
	if failed != nil {
		failed.Version = saved.Version()
	}
	rt.titleSaved(saved)
	rt.endOrphans(ctx, loaded, saved)
	// 12. Hooks: what they change is in the returned value only.
	returned, err := rt.runHooks(ctx, session.AfterSave, saved)
	if err != nil {
		return saved, joinFailures(failed, rt.afterSaveFailed(saved, err))
	}
	// 13. Event. Watchers were woken by the store, the lease ended with the save.
	rt.wakeEmbedder()
	rt.wakeFacts(saved)
	rt.bus.emit(SessionSaved{About: rt.about(x.ref.ID), Version: saved.Version(), Status: saved.Status()})
	return returned, joinFailures(failed, nil)
}

func (x *execution) load(ctx context.Context) (session.Session, error) {
	if x.held != nil {
		return *x.held, nil
	}
	return x.rt.store.Load(ctx, x.ref, x.rt.tails != nil)
}

// wasOvertaken reports an action that did not get the lease with its first
// write: another caller was faster, or there was nothing to write.
func (x *execution) wasOvertaken(env *Environment, err error) bool {
	return x.access.onLease != nil && (err == nil || env.writeFailed && (errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrConflict)))
}

// checkPermitted checks version, kind and status.
func (x *execution) checkPermitted(s session.Session) error {
	if want := x.opts.ifVersion; want != nil && *want != s.Version() {
		return &session.ConflictError{ID: s.ID(), Reason: session.ReasonStale, Want: *want, Have: s.Version()}
	}
	if kind := s.Info().Kind; ownsConversation(kind) && changesConversation(x.action) {
		return &session.InvalidError{Field: "kind", Reason: fmt.Sprintf("%s cannot be executed on a session of kind %s", x.action.Name(), kind)}
	}
	if !permits(x.action, s.Status()) {
		return &session.StatusError{ID: s.ID(), Status: s.Status(), Action: x.action.Name()}
	}
	return nil
}

// act runs the action and checks what it returns. Failed is the failure of this
// session's own execution; that of another one is an error like any.
func (x *execution) act(ctx context.Context, env *Environment, s session.Session) (next session.Session, failed *session.ExecutionError, err error) {
	defer func() {
		if v := recover(); v != nil {
			next, failed, err = s, nil, &session.PanicError{Where: "action " + x.action.Name(), Value: v}
		}
	}()
	next, err = x.action.Execute(withEnv(agent.WithoutWriter(ctx), env), s)
	if err != nil {
		if failed = ownFailure(next, err); failed == nil {
			return s, nil, err
		}
	}
	if kept := checkIdentity(s, next); kept != nil {
		return s, nil, kept
	}
	if _, restore := x.action.(restorer); !restore && s.Status() == session.Deleted && next.Status() != session.Deleted {
		return s, nil, &session.InvalidError{Field: "status", Reason: "only RestoreSession leaves deleted"}
	}
	return next, failed, nil
}

// ownFailure finds in an error the failure of the session's last execution.
func ownFailure(s session.Session, err error) *session.ExecutionError {
	var failed *session.ExecutionError
	if s.IsZero() || !errors.As(err, &failed) || failed.ID != s.ID() {
		return nil
	}
	if e := s.Execution(); e == nil || e.ID != failed.ExecutionID || e.Cause() == nil {
		return nil
	}
	return failed
}

// save stores the version. Finished work of a long action is saved even when
// its caller has gone.
func (x *execution) save(ctx context.Context, env *Environment, s session.Session) (session.Session, error) {
	commit := x.rt.commit(x.action.Name())
	commit.Fence, commit.Keys = x.access.fence, slices.Clip(x.keys)
	for _, r := range session.Unsaved(s) {
		commit.Keys = append(commit.Keys, takenKeys(r.Change)...)
	}
	if lease := x.access.lease; lease != nil {
		if x.held == nil {
			lease.stop()
			commit.Release = true
		}
		finishing, done := store.Finish(ctx)
		defer done()
		ctx = finishing
	}
	saved, err := x.rt.store.Save(ctx, s, commit)
	if err != nil {
		return session.Session{}, err
	}
	if commit.Release {
		x.access.lease.markReleased()
	}
	x.rt.keysWritten(commit.Keys)
	x.rt.showWritten(s)
	env.base, x.saved = session.Base(saved), saved
	return saved, nil
}

func (rt *Runtime) commit(action string) store.Commit {
	return store.Commit{ID: rt.config.NewID(), Action: action, Actor: rt.who.Actor, At: rt.config.Now()}
}
