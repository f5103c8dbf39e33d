package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Get reads a session. It takes At, WithTail and Whole. AfterLoad hooks run
// and may refuse or change what is returned; nothing is stored.
func (rt *Runtime) Get(ctx context.Context, id string, opts ...Option) (session.Session, error) {
	ctx, done, err := rt.begin(ctx)
	if err != nil {
		return session.Session{}, err
	}
	defer done()
	s, err := rt.get(ctx, id, opts)
	if err != nil {
		rt.bus.emit(SessionLoadFailed{rt.failure(id, err)})
		return session.Session{}, err
	}
	rt.bus.emit(SessionLoaded{About: rt.about(id), Version: s.Version(), Status: s.Status()})
	return s, nil
}

func (rt *Runtime) get(ctx context.Context, id string, opts []Option) (session.Session, error) {
	o, err := collect("Get", opts, "At", "WithTail", "Whole")
	if err != nil {
		return session.Session{}, err
	}
	if o.tail && o.atSet {
		return session.Session{}, &session.InvalidError{Field: "option", Reason: "WithTail does not go with At: a tail belongs to the last version"}
	}
	ref, err := rt.ref(id)
	if err != nil {
		return session.Session{}, err
	}
	if o.tail && rt.tails == nil {
		return session.Session{}, rt.unsupported("an open tail")
	}
	s, err := rt.loadAt(ctx, ref, o)
	if err != nil {
		return session.Session{}, err
	}
	return rt.hooks(ctx, session.AfterLoad, s)
}

// Info reads a session's header: no hooks, no events.
func (rt *Runtime) Info(ctx context.Context, id string) (session.Info, error) {
	ref, err := rt.reading(id)
	if err != nil {
		return session.Info{}, err
	}
	return rt.store.Info(ctx, ref)
}

// List finds sessions by their headers: no hooks, no events. A session that
// cannot be read is reported in the page and fails nothing.
func (rt *Runtime) List(ctx context.Context, q store.Query) (store.Page, error) {
	if rt.closing.Err() != nil {
		return store.Page{}, session.ErrClosed
	}
	if err := session.CheckTenant(rt.who.Tenant); err != nil {
		return store.Page{}, err
	}
	return rt.store.List(ctx, rt.who.Tenant, q)
}

func (rt *Runtime) reading(id string) (store.Ref, error) {
	if rt.closing.Err() != nil {
		return store.Ref{}, session.ErrClosed
	}
	return rt.ref(id)
}

// Holder is the live lease on a session, if there is one.
func (rt *Runtime) Holder(ctx context.Context, id string) (store.Lease, bool, error) {
	ref, err := rt.reading(id)
	if err != nil || rt.leases == nil {
		return store.Lease{}, false, err
	}
	return rt.leases.Holding(ctx, ref)
}

// Resolve finds a session by its id, by a unique beginning of it of at least
// four characters, or by its name. Deleted sessions are found when no other
// fits. Several that fit are an AmbiguousError.
func (rt *Runtime) Resolve(ctx context.Context, ref string) (session.Info, error) {
	if session.CheckID(ref) == nil {
		info, err := rt.Info(ctx, ref)
		if err == nil || !errors.Is(err, session.ErrNotFound) {
			return info, err
		}
		if len(ref) >= 4 {
			info, err := rt.only(ctx, ref, store.Query{IDPrefix: ref})
			if err == nil || !errors.Is(err, session.ErrNotFound) {
				return info, err
			}
		}
	}
	if ref == "" {
		return session.Info{}, &session.InvalidError{Field: "session", Reason: "an id, the beginning of one or a name is needed"}
	}
	return rt.only(ctx, ref, store.Query{Name: ref})
}

// only is the one session a query finds.
func (rt *Runtime) only(ctx context.Context, ref string, q store.Query) (session.Info, error) {
	q.Kinds, q.Limit = session.Kinds(), 10
	for _, q.IncludeDeleted = range []bool{false, true} {
		page, err := rt.List(ctx, q)
		if err != nil {
			return session.Info{}, err
		}
		switch len(page.Items) {
		case 0:
			continue
		case 1:
			return page.Items[0], nil
		}
		candidates := make([]string, len(page.Items))
		for i, info := range page.Items {
			candidates[i] = info.ID
		}
		return session.Info{}, &session.AmbiguousError{Ref: ref, Candidates: candidates}
	}
	return session.Info{}, session.NotFound(ref)
}

// Log reads a session's changes after a number, sealed or in the open tail.
// For a fork the parent's come first. It needs a store with a log.
func (rt *Runtime) Log(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error] {
	return func(yield func(session.LogEntry, error) bool) {
		ref, err := rt.logged(id)
		if err != nil {
			yield(session.LogEntry{}, err)
			return
		}
		from := after
		rt.read(ctx, ref, &from, yield)
	}
}

// read yields what the log holds after a number, which it moves on. It
// reports whether to go on.
func (rt *Runtime) read(ctx context.Context, ref store.Ref, after *int64, yield func(session.LogEntry, error) bool) bool {
	for {
		entries, err := rt.logs.Log(ctx, ref, *after, 0)
		if err != nil {
			yield(session.LogEntry{}, err)
			return false
		}
		if len(entries) == 0 {
			return true
		}
		for _, e := range entries {
			*after = e.Seq
			if !yield(e, nil) {
				return false
			}
		}
	}
}

func (rt *Runtime) logged(id string) (store.Ref, error) {
	ref, err := rt.reading(id)
	if err == nil && rt.logs == nil {
		err = rt.unsupported("a log")
	}
	return ref, err
}

// Commits lists the versions of a session after one: who did what, and when.
func (rt *Runtime) Commits(ctx context.Context, id string, after int64) ([]store.CommitInfo, error) {
	ref, err := rt.logged(id)
	if err != nil {
		return nil, err
	}
	var all []store.CommitInfo
	for {
		page, err := rt.logs.Commits(ctx, ref, after, 0)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = page[len(page)-1].Version
	}
}

// Diff lists the changes that lead from one version to a later one.
func (rt *Runtime) Diff(ctx context.Context, id string, from, to int64) ([]session.LogEntry, error) {
	ref, err := rt.logged(id)
	if err != nil {
		return nil, err
	}
	if from > to {
		return nil, &session.InvalidError{Field: "version", Reason: fmt.Sprintf("%d is later than %d", from, to)}
	}
	seqs := make([]int64, 2)
	for i, version := range []int64{from, to} {
		s, err := rt.logs.LoadAt(ctx, ref, version)
		if err != nil {
			return nil, err
		}
		seqs[i] = s.Info().Seq
	}
	var changes []session.LogEntry
	after := seqs[0]
	var failed error
	rt.read(ctx, ref, &after, func(e session.LogEntry, err error) bool {
		if err != nil || e.Seq > seqs[1] {
			failed = err
			return false
		}
		changes = append(changes, e)
		return true
	})
	return changes, failed
}

// Watch yields a session's changes after a number, then waits for more until
// the context ends. The number of a change is the cursor to go on from; none
// is left out or repeated. Watching changes nothing and holds nothing.
func (rt *Runtime) Watch(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error] {
	return func(yield func(session.LogEntry, error) bool) {
		ref, err := rt.logged(id)
		if err != nil {
			yield(session.LogEntry{}, err)
			return
		}
		news := func(e session.LogEntry, err error) bool {
			return (err == nil || ctx.Err() == nil) && yield(e, err) // the context's end is no news
		}
		ring, stop := rt.bell(ref)
		defer stop()
		from := after
		for rt.read(ctx, ref, &from, news) {
			if err := rt.await(ctx, ring, rt.config.Poll); err != nil {
				news(session.LogEntry{}, err)
				return
			}
		}
	}
}
