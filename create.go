package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Create makes a session of a definition and stores it as version 1. It takes
// WithID, WithName, WithUser, WithKind, WithSeed, WithChanges and WithExpiry.
//
// DefinitionError and InvalidError, HookError, ConflictError: nothing was
// stored. AfterSaveError: the session was stored and is returned with it.
func (rt *Runtime) Create(ctx context.Context, def session.Definition, opts ...Option) (session.Session, error) {
	ctx, done, err := rt.begin(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	o, optErr := collect("Create", opts, "WithID", "WithName", "WithUser", "WithKind", "WithSeed", "WithChanges", "WithExpiry")
	id := rt.newID(o.id, optErr)
	return creation{rt: rt, id: id, action: "create", put: rt.store.Create, build: func() (session.Session, error) {
		if optErr != nil {
			return session.Session{}, optErr
		}
		if err := rt.checkDefinition(ctx, def, ""); err != nil {
			return session.Session{}, err
		}
		birth := session.Birth{
			ID: id, AgentID: rt.config.NewID(), Name: o.name, Tenant: rt.who.Tenant, UserID: o.user, Kind: o.kind,
			ExpiresAt: timePtr(o.expires),
		}
		if birth.UserID == "" {
			birth.UserID = rt.who.UserID
		}
		o.seed.Messages = slices.Clone(o.seed.Messages)
		for i := range o.seed.Messages {
			if o.seed.Messages[i].ID == "" {
				o.seed.Messages[i].ID = rt.config.NewID()
			}
		}
		now := rt.config.Now()
		s, err := session.New(birth, def, o.seed, now)
		if err != nil {
			return session.Session{}, err
		}
		return s.With(now, o.changes...)
	}}.run(ctx)
}

// newID is the id that was asked for, or a fresh one. Bad options must not
// lead to an id nobody asked for in the events.
func (rt *Runtime) newID(asked string, optErr error) string {
	if asked != "" || optErr != nil {
		return asked
	}
	return rt.config.NewID()
}

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Fork starts a new session with the same history up to a version, the last
// one unless At says otherwise. The two never affect each other again. There
// is no merge: compare the logs instead. It takes At, WithID and WithName.
//
// The fork is active, has version 1, a fresh agent id and no execution, name
// or expiry of its parent's. An open tail is never part of it. AfterLoad hooks
// see the source and may refuse; what they change is not forked.
func (rt *Runtime) Fork(ctx context.Context, id string, opts ...Option) (session.Session, error) {
	ctx, done, err := rt.begin(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	o, err := collect("Fork", opts, "At", "WithID", "WithName")
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
	childID := rt.newID(o.id, nil)
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
	_, err = rt.hooks(ctx, session.AfterLoad, s)
	return s, err
}

// Import stores a session that was built from a foreign or exported document:
// a version-0 session of this view's tenant. It passes the create pipeline;
// tools and models it names are checked when it is next executed, but credentials
// among its model's options are refused at once.
func (rt *Runtime) Import(ctx context.Context, s session.Session) (session.Session, error) {
	ctx, done, err := rt.begin(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	if s.IsZero() {
		return session.Session{}, &session.InvalidError{Field: "session", Reason: "is empty"}
	}
	return creation{rt: rt, id: s.ID(), action: "import", put: rt.store.Create, build: func() (session.Session, error) {
		if s.Tenant() != rt.who.Tenant {
			return session.Session{}, &session.InvalidError{Field: "tenant", Reason: fmt.Sprintf("%q is not %q", s.Tenant(), rt.who.Tenant)}
		}
		err := checkSecrets("definition "+s.Info().AgentName, s.Definition().ModelParams)
		if err == nil {
			err = checkSecrets("session "+s.ID(), s.State().ModelParams)
		}
		return s, err
	}}.run(ctx)
}

// loadAt reads a version as At asks, the last one without it.
func (rt *Runtime) loadAt(ctx context.Context, ref store.Ref, o options) (session.Session, error) {
	switch {
	case o.whole && o.tail && rt.logs != nil:
		s, err := rt.store.Load(ctx, ref, rt.tails != nil)
		if err != nil {
			return session.Session{}, err
		}
		return store.Whole(ctx, rt.logs, s)
	case o.whole && rt.logs != nil:
		if o.atSet && o.at < 1 {
			return session.Session{}, badVersion(o.at)
		}
		s, err := rt.logs.LoadWhole(ctx, ref, o.at)
		if err != nil {
			return session.Session{}, err
		}
		return store.Whole(ctx, rt.logs, s)
	case !o.atSet:
		return rt.store.Load(ctx, ref, o.tail && rt.tails != nil)
	case rt.logs != nil:
		return rt.logs.LoadAt(ctx, ref, o.at)
	}
	s, err := rt.store.Load(ctx, ref, false)
	if err != nil {
		return session.Session{}, err
	}
	switch {
	case o.at == s.Version():
		return s, nil
	case o.at < 1 || o.at > s.Version():
		return session.Session{}, badVersion(o.at)
	}
	return session.Session{}, rt.unsupported("reading earlier versions")
}

func badVersion(v int64) error {
	return &session.InvalidError{Field: "version", Reason: fmt.Sprintf("%d is not a version of this session", v)}
}
