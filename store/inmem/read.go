package inmem

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Load reads the last version, with the open tail where asked.
func (s *Store) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	seen, err := s.look(ctx, r)
	if err != nil {
		return session.Session{}, err
	}
	last, err := seen.load(r.ID, false)
	if err != nil || !tail {
		return last, err
	}
	records, err := decodeRecords(r.ID, seen.tail)
	if err != nil {
		return session.Session{}, err
	}
	whole, err := session.ApplyTail(last, records)
	if err != nil {
		return session.Session{}, store.Unreadable(r.ID, "tail", err)
	}
	return whole, nil
}

// look returns a copy of a session's row, to be read without the lock.
func (s *Store) look(ctx context.Context, r store.Ref) (seen row, err error) {
	err = s.read(ctx, r, func(w *row) error {
		seen = *w
		return nil
	})
	return seen, err
}

// load decodes the last version with the messages of its window or the whole
// transcript.
func (w *row) load(id string, whole bool) (session.Session, error) {
	head, err := w.current(id)
	if err != nil {
		return session.Session{}, err
	}
	return w.log.fill(head, whole)
}

// fill returns a head with its messages.
func (l log) fill(head session.Session, whole bool) (session.Session, error) {
	messages, err := l.messages(head.ID(), session.Spans(head), head.Window(), whole)
	if err != nil {
		return session.Session{}, err
	}
	full, err := session.AttachMessages(head, messages)
	if err != nil {
		return session.Session{}, store.Unreadable(head.ID(), "log", err)
	}
	return full, nil
}

// Info reads the header.
func (s *Store) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	var raw []byte
	err := s.read(ctx, r, func(w *row) error {
		raw = w.header
		return nil
	})
	if err != nil {
		return session.Info{}, err
	}
	return decodeHeader(r.ID, raw)
}

// List finds sessions of one tenant.
func (s *Store) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return store.Page{}, err
	}
	q, after, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	var infos []session.Info
	var corrupt []*session.CorruptError
	for _, f := range s.ofTenant(tenant, func(*row) bool { return true }) {
		info, fits, err := f.matches(q)
		var bad *session.CorruptError
		switch {
		case errors.As(err, &bad):
			corrupt = append(corrupt, bad)
		case err != nil:
			corrupt = append(corrupt, &session.CorruptError{ID: f.id, Reason: err.Error()})
		case fits:
			infos = append(infos, info)
		}
	}
	page := q.Paginate(infos, after)
	page.Corrupt = corrupt
	return page, nil
}

// found is what a listing needs of a row.
type found struct {
	id           string
	header, head []byte
}

// ofTenant returns the wanted rows of a tenant, sorted by id.
func (s *Store) ofTenant(tenant string, want func(*row) bool) []found {
	s.data.mu.Lock()
	var rows []found
	for r, w := range s.data.rows {
		if r.Tenant == tenant && want(w) {
			rows = append(rows, found{id: r.ID, header: w.header, head: w.head})
		}
	}
	s.data.mu.Unlock()
	slices.SortFunc(rows, func(a, b found) int { return cmp.Compare(a.id, b.id) })
	return rows
}

func (f found) matches(q store.Query) (session.Info, bool, error) {
	info, err := decodeHeader(f.id, f.header)
	if err != nil {
		return info, false, err
	}
	fits, err := q.Match(info, func() (session.Values, error) {
		head, err := session.DecodeHead(f.head, nil)
		if err != nil {
			return nil, store.Unreadable(f.id, "head", err)
		}
		return head.Metadata(), nil
	})
	return info, fits, err
}

// Interrupted lists sessions whose execution was interrupted.
func (s *Store) Interrupted(ctx context.Context, tenant string) ([]store.Ref, error) {
	return s.unheld(ctx, tenant, func(w *row) bool { return w.live > 0 || w.running })
}

// Unread lists sessions whose inbox waits for somebody.
func (s *Store) Unread(ctx context.Context, tenant string) ([]store.Ref, error) {
	return s.unheld(ctx, tenant, func(w *row) bool { return w.inbox.unread() > 0 })
}

// unheld lists sessions of a tenant that nobody holds.
func (s *Store) unheld(ctx context.Context, tenant string, want func(*row) bool) ([]store.Ref, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	now := s.data.now()
	var refs []store.Ref
	for _, f := range s.ofTenant(tenant, func(w *row) bool { return want(w) && !w.lease.Live(now) }) {
		refs = append(refs, store.Ref{Tenant: tenant, ID: f.id})
	}
	return refs, nil
}

// Sweepable lists sessions that are no longer wanted.
func (s *Store) Sweepable(ctx context.Context, tenant string, r store.Retention, now time.Time) ([]session.Info, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	r, err := r.Check()
	if err != nil {
		return nil, err
	}
	clock := s.data.now()
	idle := func(w *row) bool { return w.live == 0 && !w.lease.Live(clock) && w.inbox.unread() == 0 }
	var infos []session.Info
	for _, f := range s.ofTenant(tenant, idle) {
		if info, err := decodeHeader(f.id, f.header); err == nil && r.Fits(info, now) {
			infos = append(infos, info)
		}
	}
	return r.Oldest(infos), nil
}
