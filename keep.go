package holdfast

import (
	"context"
	"encoding/json"
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
	if item.Payload, err = rt.payload(item); err != nil {
		return item, err
	}
	return item, rt.inboxes.Post(ctx, ref, item)
}

// payload is what an item carries, as it may be kept: a follow-up's message is
// one that could be sent, and nothing holds a secret.
func (rt *Runtime) payload(item store.Item) (session.Values, error) {
	kept := make(session.Values, len(item.Payload))
	for key, raw := range item.Payload {
		masked, err := rt.maskJSON(raw)
		if err != nil {
			return nil, err
		}
		kept[key] = masked
	}
	if item.Kind != store.ItemFollowUp {
		return kept, nil
	}
	var m session.Message
	if err := json.Unmarshal(item.Payload["message"], &m); err != nil {
		return nil, &session.InvalidError{Field: "payload.message", Reason: "a follow-up carries a message"}
	}
	m, err := SendMessage{Message: &m}.message(func() string { return item.ID })
	if err != nil {
		return nil, err
	}
	if m, err = rt.maskMessage(m); err != nil {
		return nil, err
	}
	kept["message"], err = session.JSON(m)
	return kept, err
}

// Cancel stops what a session is executing, for good, in whichever process. A
// call to a model that is under way is broken off and what it has streamed is
// dropped; tools that run are told to end and have their results written. The
// execution is saved as stopped, by whoever runs it, and so are its subagents'.
// One that was broken off is ended at once. With neither it is an InvalidError.
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
	case live && s.Running():
		if err := rt.postCancel(ctx, id, s.Execution().ID); err != nil {
			return err
		}
		return rt.cancelChildren(ctx, id)
	case s.Running():
		_, err := rt.Execute(ctx, id, AbandonExecution{reason: session.StopUserRequested})
		if err == nil {
			return rt.cancelChildren(ctx, id)
		}
		if !errors.Is(err, session.ErrInvalid) { // it came to its end meanwhile
			return err
		}
	}
	return &session.InvalidError{Field: "execution", Reason: "there is nothing to cancel"}
}

// postCancel asks an execution to end, once however often it is called.
func (rt *Runtime) postCancel(ctx context.Context, id, executionID string) error {
	raw, err := session.JSON(executionID)
	if err != nil {
		return err
	}
	_, err = rt.Post(ctx, id, store.Item{ID: "cancel:" + executionID, Kind: store.ItemCancel, Payload: session.Values{"executionId": raw}})
	return err
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
		if err != nil {
			results[i] = &Recovered{ID: ref.ID, Err: err}
			continue
		}
		if info.Kind != session.KindChat || info.Status != session.Active {
			continue
		}
		s, err := rt.store.Load(ctx, ref, true)
		if err != nil {
			results[i] = &Recovered{ID: ref.ID, Err: err}
			continue
		}
		if (&execution{rt: rt, ref: ref}).checkResponded(ctx, s) != nil {
			continue // it waits for responses, and needs no process for that
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
	working, a, err := rt.enter(ctx, ref, leaseNow, busy)
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
	q := store.Query{ParentID: id, Kinds: session.Kinds(), IncludeDeleted: true, Order: store.IDAsc}
	for {
		page, err := rt.List(ctx, q)
		if err != nil {
			return err
		}
		for _, child := range page.Items {
			if seen[child.ID] {
				continue
			}
			seen[child.ID] = true
			if err := rt.purgeChildren(ctx, child.ID, seen); err != nil {
				return err
			}
			if err := rt.Purge(ctx, child.ID); err != nil && !errors.Is(err, session.ErrNotFound) {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
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
