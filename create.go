package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Create makes a session of a definition and stores it as version 1. It takes
// WithID, WithName, WithUser, WithKind, WithSeed, WithChanges, WithExpiry,
// IdempotencyKey and KeyedRequest: the same request under the same key returns
// the session that the first one made.
//
// DefinitionError and InvalidError, HookError, ConflictError: nothing was
// stored. AfterSaveError: the session was stored and is returned with it.
func (rt *Runtime) Create(ctx context.Context, def session.Definition, opts ...Option) (session.Session, error) {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	o, err := collectOptions("Create", opts, "WithID", "WithName", "WithUser", "WithKind", "WithSeed", "WithChanges", "WithExpiry", "IdempotencyKey", "KeyedRequest")
	c := creation{rt: rt, id: o.id, action: "create", put: rt.store.Create}
	if err == nil {
		o.user = cmp.Or(o.user, rt.who.UserID)
		request := []any{def, o.name, o.user, o.kind, o.seed, o.expires}
		for _, change := range o.changes {
			request = append(request, change.Kind(), change)
		}
		c.id, c.keys, err = rt.createKeys(o, "create", request)
	}
	c.build = func() (session.Session, error) {
		if err != nil {
			return session.Session{}, err
		}
		if err := rt.config.Limits.checkNew(def.SystemPrompt, o.seed.Messages, o.seed.Metadata); err != nil {
			return session.Session{}, err
		}
		if err := rt.checkDefinition(ctx, def, ""); err != nil {
			return session.Session{}, err
		}
		identity := session.Identity{
			ID: c.id, AgentID: rt.config.NewID(), Name: o.name, Tenant: rt.who.Tenant, UserID: o.user, Kind: o.kind,
			ExpiresAt: timePtr(o.expires),
		}
		o.seed.Messages = slices.Clone(o.seed.Messages)
		for i := range o.seed.Messages {
			if o.seed.Messages[i].ID == "" {
				o.seed.Messages[i].ID = rt.config.NewID()
			}
		}
		now := rt.config.Now()
		s, err := session.New(identity, def, o.seed, now)
		if err != nil {
			return session.Session{}, err
		}
		return s.With(now, o.changes...)
	}
	return c.run(ctx)
}

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Import stores a session that was built from a foreign or exported document:
// a version-0 session of this view's tenant. It passes the create pipeline;
// tools and models it names are checked when it is next executed, but credentials
// among its model's options are refused at once.
func (rt *Runtime) Import(ctx context.Context, s session.Session) (session.Session, error) {
	ctx, done, err := rt.beginCall(ctx)
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
