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
	ctx, done, err := rt.beginCall(ctx)
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
	o, err := collectOptions("Get", opts, "At", "WithTail", "Whole")
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
	return rt.runHooks(ctx, session.AfterLoad, s)
}

// Exists reports whether a session is there, deleted ones included: no hooks, no
// events. One whose data cannot be read is an error.
func (rt *Runtime) Exists(ctx context.Context, id string) (bool, error) {
	_, err := rt.Info(ctx, id)
	if errors.Is(err, session.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Info reads a session's header: no hooks, no events.
func (rt *Runtime) Info(ctx context.Context, id string) (session.Info, error) {
	ref, err := rt.openRef(id)
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

// Sessions iterates over all sessions that List finds, page by page; q.Limit is
// the size of a page. A session that cannot be read comes as its id with a
// CorruptError, and the iteration continues. Any other error ends it.
func (rt *Runtime) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Info, error] {
	return func(yield func(session.Info, error) bool) {
		for {
			page, err := rt.List(ctx, q)
			if err != nil {
				yield(session.Info{}, err)
				return
			}
			for _, info := range page.Items {
				if !yield(info, nil) {
					return
				}
			}
			for _, bad := range page.Corrupt {
				if !yield(session.Info{ID: bad.ID}, bad) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
}

// openRef refuses calls after Close and ids that cannot be one.
func (rt *Runtime) openRef(id string) (store.Ref, error) {
	if rt.closing.Err() != nil {
		return store.Ref{}, session.ErrClosed
	}
	return rt.ref(id)
}

// Holder is the live lease on a session, if there is one.
func (rt *Runtime) Holder(ctx context.Context, id string) (store.Lease, bool, error) {
	ref, err := rt.openRef(id)
	if err != nil || rt.leases == nil {
		return store.Lease{}, false, err
	}
	return rt.leases.Holding(ctx, ref)
}

// Spending adds up what the answers of models used in the sessions of the
// runtime's tenant. It is an UnsupportedError where the store cannot.
func (rt *Runtime) Spending(ctx context.Context, q store.SpendingQuery) (store.Spending, error) {
	if rt.spends == nil {
		return store.Spending{}, rt.unsupported("spending")
	}
	return rt.spends.Spending(ctx, rt.who.Tenant, q)
}

// FindMessages finds messages that hold all words of a text, in the transcripts
// of all sessions of the runtime's tenant, the newest first. It is an
// UnsupportedError where the store cannot.
func (rt *Runtime) FindMessages(ctx context.Context, text string, limit int) ([]store.Passage, error) {
	if rt.closing.Err() != nil {
		return nil, session.ErrClosed
	}
	if rt.memories == nil {
		return nil, rt.unsupported("recall")
	}
	words := store.Words(text)
	return rt.memories.Search(ctx, rt.who.Tenant, store.Search{Words: words, Least: len(words), Limit: limit, Everywhere: true})
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
			info, err := rt.findOne(ctx, ref, store.Query{IDPrefix: ref})
			if err == nil || !errors.Is(err, session.ErrNotFound) {
				return info, err
			}
		}
	}
	if ref == "" {
		return session.Info{}, &session.InvalidError{Field: "session", Reason: "an id, the beginning of one or a name is needed"}
	}
	return rt.findOne(ctx, ref, store.Query{Name: ref})
}

// findOne returns the one session a query finds.
func (rt *Runtime) findOne(ctx context.Context, ref string, q store.Query) (session.Info, error) {
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
