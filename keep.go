package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Post leaves something in a session's inbox. It needs no lease; an id that
// was there before is dropped. An empty id or time is filled in.
func (rt *Runtime) Post(ctx context.Context, id string, item store.Item) (store.Item, error) {
	ref, err := rt.reading(id)
	if err != nil {
		return item, err
	}
	if rt.inboxes == nil {
		return item, rt.unsupported("an inbox")
	}
	if item.ID == "" {
		item.ID = rt.config.NewID()
	}
	if item.At.IsZero() {
		item.At = rt.config.Now()
	}
	payload := make(session.Values, len(item.Payload))
	for key, raw := range item.Payload {
		payload[key] = rt.maskJSON(raw)
	}
	item.Payload = payload
	return item, rt.inboxes.Post(ctx, ref, item)
}

// Cancel stops what a session is executing, for good. A running execution
// ends at its next safe point and is saved as stopped; one that was broken off
// is ended at once. With neither it is an InvalidError.
func (rt *Runtime) Cancel(ctx context.Context, id string) error {
	ref, err := rt.reading(id)
	if err != nil {
		return err
	}
	if rt.inboxes == nil || rt.leases == nil {
		return rt.unsupported("an inbox")
	}
	s, err := rt.store.Load(ctx, ref, rt.tails != nil)
	if err != nil {
		return err
	}
	_, live, err := rt.leases.Holding(ctx, ref)
	switch {
	case err != nil:
		return err
	case live:
		payload := session.Values{}
		if s.Running() {
			raw, err := session.JSON(s.Execution().ID)
			if err != nil {
				return err
			}
			payload["executionId"] = raw
		}
		_, err := rt.Post(ctx, id, store.Item{Kind: store.ItemCancel, Payload: payload})
		return err
	case s.Running():
		_, err := rt.Execute(ctx, id, AbandonExecution{reason: session.StopUserRequested})
		return err
	}
	return &session.InvalidError{Field: "execution", Reason: "there is nothing to cancel"}
}

// Recovered is what Recover did about one session.
type Recovered struct {
	ID      string
	Version int64 // 0 when it failed
	Err     error
}

// Recover continues every interrupted conversation it can get the lease of, a
// few at a time, and reports each. Tasks and workflow runs are taken up by
// their own packages.
func (rt *Runtime) Recover(ctx context.Context) ([]Recovered, error) {
	if rt.tails == nil {
		return nil, rt.unsupported("resuming")
	}
	refs, err := rt.tails.Interrupted(ctx, rt.who.Tenant)
	if err != nil {
		return nil, err
	}
	const atOnce = 4
	results := make([]*Recovered, len(refs))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, ref := range refs {
		info, err := rt.store.Info(ctx, ref)
		if err != nil || info.Kind != session.KindChat || info.Status != session.Active {
			continue
		}
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer wg.Done()
			defer func() { <-slots }()
			s, err := rt.Execute(ctx, ref.ID, ContinueExecution{}, OnBusy(Reject))
			results[i] = &Recovered{ID: ref.ID, Err: err}
			if !s.IsZero() && (err == nil || errors.Is(err, session.ErrExecutionFailed) || errors.Is(err, session.ErrAfterSave)) {
				results[i].Version = s.Version()
			}
		}()
	}
	wg.Wait()
	var done []Recovered
	for _, r := range results {
		if r != nil {
			done = append(done, *r)
		}
	}
	return done, nil
}

// Purge removes a session for good: its history, inbox and keys. Forks of it
// stay readable. It takes Cascade, which purges its children first. A missing
// id is ErrNotFound.
func (rt *Runtime) Purge(ctx context.Context, id string, opts ...Option) error {
	ctx, done, err := rt.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	o, err := collect("Purge", opts, "Cascade")
	if err != nil {
		return err
	}
	ref, err := rt.ref(id)
	if err != nil {
		return err
	}
	if o.cascade {
		if err := rt.purgeChildren(ctx, id); err != nil {
			return err
		}
	}
	if _, err := rt.store.Info(ctx, ref); err != nil && !errors.Is(err, session.ErrCorrupt) {
		return err
	}
	working, a, err := rt.enter(ctx, ref, true, Wait)
	if errors.Is(err, session.ErrCorrupt) { // there is nothing to protect
		return rt.remove(ctx, ref, 0)
	}
	if err != nil {
		return err
	}
	defer a.release(ctx)
	return rt.remove(working, ref, a.fence)
}

func (rt *Runtime) remove(ctx context.Context, ref store.Ref, fence int64) error {
	if err := rt.store.Delete(ctx, ref, fence); err != nil {
		return err
	}
	rt.bus.emit(SessionPurged{rt.about(ref.ID)})
	return nil
}

func (rt *Runtime) purgeChildren(ctx context.Context, id string) error {
	for {
		page, err := rt.List(ctx, store.Query{ParentID: id, Kinds: session.Kinds(), IncludeDeleted: true})
		if err != nil || len(page.Items) == 0 {
			return err
		}
		for _, child := range page.Items {
			if err := rt.Purge(ctx, child.ID, Cascade()); err != nil && !errors.Is(err, session.ErrNotFound) {
				return err
			}
		}
	}
}

// Retention says which sessions Sweep takes and what it does with them.
type Retention struct {
	Statuses []session.Status // empty: any but deleted
	IdleFor  time.Duration    // not updated for so long
	Expired  bool             // only those past their expiry
	Purge    bool             // remove for good; otherwise delete, which can be undone
	Limit    int              // 0: 1000
	DryRun   bool             // only say which
}

// Sweep deletes or purges sessions that are no longer wanted and returns their
// ids. Sessions that are executing, interrupted or have an unread inbox are
// left alone. Nothing is swept unless this is called.
func (rt *Runtime) Sweep(ctx context.Context, r Retention) ([]string, error) {
	if rt.sweeps == nil {
		return nil, rt.unsupported("sweeping")
	}
	if r.IdleFor < 0 || r.Limit < 0 {
		return nil, &session.InvalidError{Field: "retention", Reason: "IdleFor and Limit are not negative"}
	}
	if r.IdleFor == 0 && !r.Expired {
		return nil, &session.InvalidError{Field: "retention", Reason: "say IdleFor or Expired; without either everything would go"}
	}
	found, err := rt.sweeps.Sweepable(ctx, rt.who.Tenant, store.Retention{
		Statuses: r.Statuses, IdleFor: r.IdleFor, Expired: r.Expired, Limit: r.Limit,
	}, rt.config.Now())
	if err != nil {
		return nil, err
	}
	var swept []string
	for _, info := range found {
		if err := rt.sweepOne(ctx, info, r); err != nil {
			if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrConflict) || errors.Is(err, session.ErrBusy) {
				continue // it was used or removed meanwhile
			}
			return swept, err
		}
		swept = append(swept, info.ID)
	}
	return swept, nil
}

func (rt *Runtime) sweepOne(ctx context.Context, info session.Info, r Retention) error {
	switch {
	case r.DryRun:
		return nil
	case r.Purge:
		return rt.Purge(ctx, info.ID)
	}
	_, err := rt.Execute(ctx, info.ID, DeleteSession{}, IfVersion(info.Version), OnBusy(Reject))
	return err
}
