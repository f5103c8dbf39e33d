package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Purge removes a session for good: its history, inbox and keys. Forks of it
// stay readable. It takes Cascade, which purges its children first. A missing
// id is ErrNotFound.
func (rt *Runtime) Purge(ctx context.Context, id string, opts ...Option) error {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return err
	}
	defer done()
	o, err := collectOptions("Purge", opts, "Cascade")
	if err != nil {
		return err
	}
	ref, err := rt.ref(id)
	if err != nil {
		return err
	}
	if o.cascade {
		if err := rt.purgeChildren(ctx, id, map[string]bool{id: true}); err != nil {
			return err
		}
	}
	return rt.purge(ctx, ref, Wait, func(context.Context) error { return nil })
}

// purge removes one session under its lease, if there is no objection then.
func (rt *Runtime) purge(ctx context.Context, ref store.Ref, busy Busy, objection func(context.Context) error) error {
	if _, err := rt.store.Info(ctx, ref); err != nil && !errors.Is(err, session.ErrCorrupt) {
		return err
	}
	working, a, err := rt.enterSession(ctx, ref, leaseNow, busy)
	if errors.Is(err, session.ErrCorrupt) { // there is nothing to protect
		return rt.remove(ctx, ref, 0)
	}
	if err != nil {
		return err
	}
	defer a.release(ctx)
	if err := objection(working); err != nil {
		return err
	}
	return rt.remove(working, ref, a.fence)
}

func (rt *Runtime) remove(ctx context.Context, ref store.Ref, fence int64) error {
	if err := rt.store.Delete(ctx, ref, fence); err != nil {
		return err
	}
	rt.bus.emit(SessionPurged{rt.about(ref.ID)})
	return nil
}

// purgeChildren purges the descendants of a session, the deepest first. Seen
// ends it where imported parents go in a circle.
func (rt *Runtime) purgeChildren(ctx context.Context, id string, seen map[string]bool) error {
	all := store.Query{ParentID: id, Kinds: session.Kinds(), IncludeDeleted: true, Order: store.IDAsc}
	for child, err := range rt.Sessions(ctx, all) {
		switch {
		case errors.Is(err, session.ErrCorrupt) || err == nil && seen[child.ID]:
			continue
		case err != nil:
			return err
		}
		seen[child.ID] = true
		if err := rt.purgeChildren(ctx, child.ID, seen); err != nil {
			return err
		}
		if err := rt.Purge(ctx, child.ID); err != nil && !errors.Is(err, session.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Retention says which sessions Sweep takes and what it does with them.
type Retention struct {
	Statuses []session.Status // empty: any but deleted
	IdleFor  time.Duration    // not updated for so long
	Expired  bool             // only those past their expiry; stored values that have expired are removed with them
	Purge    bool             // remove for good; otherwise delete, which can be undone
	Limit    int              // 0: 1000
	DryRun   bool             // only say which
}

// Sweep deletes or purges sessions that are no longer wanted and returns their
// ids. Sessions that are executing, interrupted or have an unread inbox are
// left alone. Nothing is swept unless this is called. One that cannot be swept
// does not keep the others: all errors come together, each with its session.
func (rt *Runtime) Sweep(ctx context.Context, r Retention) ([]string, error) {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if rt.sweeps == nil {
		return nil, rt.unsupported("sweeping")
	}
	if r.IdleFor < 0 || r.Limit < 0 {
		return nil, &session.InvalidError{Field: "retention", Reason: "IdleFor and Limit are not negative"}
	}
	if r.IdleFor == 0 && !r.Expired {
		return nil, &session.InvalidError{Field: "retention", Reason: "say IdleFor or Expired; without either everything would go"}
	}
	if r.Expired && !r.DryRun {
		if err := rt.sweepEntries(ctx); err != nil {
			return nil, err
		}
	}
	found, err := rt.sweeps.Sweepable(ctx, rt.who.Tenant, store.Retention{
		Statuses: r.Statuses, IdleFor: r.IdleFor, Expired: r.Expired, Limit: r.Limit,
	}, rt.config.Now())
	if err != nil {
		return nil, err
	}
	var swept []string
	var refused []error
	for _, info := range found {
		err := rt.sweepOne(ctx, info, r)
		if err == nil || errors.Is(err, session.ErrAfterSave) {
			swept = append(swept, info.ID)
		}
		switch {
		case err == nil, errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrConflict), errors.Is(err, session.ErrBusy):
			continue // it was used or removed meanwhile
		}
		refused = append(refused, fmt.Errorf("sweep %s: %w", info.ID, err))
		if ctx.Err() != nil {
			break
		}
	}
	return swept, errors.Join(refused...)
}

// sweepEntries removes what was stored for users, agents and spaces and has
// expired.
func (rt *Runtime) sweepEntries(ctx context.Context) error {
	if rt.memories == nil {
		return nil
	}
	const page = 1000
	for {
		expired, err := rt.memories.Expired(ctx, rt.who.Tenant, rt.config.Now(), page)
		if err != nil {
			return err
		}
		for _, e := range expired {
			if err := rt.forgetExpired(ctx, e.Owner, e.Key); err != nil {
				return err
			}
		}
		if len(expired) < page {
			return nil
		}
	}
}

func (rt *Runtime) sweepOne(ctx context.Context, info session.Info, r Retention) error {
	switch {
	case r.DryRun:
		return nil
	case r.Purge:
		ref := store.Ref{Tenant: rt.who.Tenant, ID: info.ID}
		return rt.purge(ctx, ref, Reject, func(ctx context.Context) error { return rt.stillIdle(ctx, ref, info.Version) })
	}
	_, err := rt.Execute(ctx, info.ID, DeleteSession{}, IfVersion(info.Version), OnBusy(Reject))
	return err
}

// stillIdle objects to sweeping a session that was used since it was found.
func (rt *Runtime) stillIdle(ctx context.Context, ref store.Ref, version int64) error {
	s, err := rt.store.Load(ctx, ref, rt.tails != nil)
	if err != nil {
		return err
	}
	used := s.Version() != version || s.HasTail()
	if !used && rt.inboxes != nil {
		items, err := rt.inboxes.Inbox(ctx, ref)
		if err != nil {
			return err
		}
		used = len(items) > 0
	}
	if used {
		return &session.ConflictError{ID: ref.ID, Reason: session.ReasonStale, Want: version, Have: s.Version()}
	}
	return nil
}
