package inmem

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// lease is the newest lease of a session, alive or not. Its token stays known
// for ever: it is what late writers are measured by.
type lease struct {
	token  int64 // 0: there never was one
	holder string
	until  time.Time
	ended  bool // released
}

func (l lease) live(now time.Time) bool { return l.token != 0 && !l.ended && now.Before(l.until) }

func (l lease) busy(id string) error {
	return &session.BusyError{ID: id, Holder: l.holder, Until: session.Instant(l.until)}
}

// admit lets a writer with a fence, or without, write or says why not.
func (l lease) admit(id string, fence int64, now time.Time) error {
	switch {
	case fence == 0 && l.live(now):
		return l.busy(id)
	case fence != 0 && !l.is(fence):
		return &session.FencedError{ID: id, Token: fence, Have: l.token}
	}
	return nil
}

// is reports whether a token is the newest and was not released. A lease that
// only ran out still is: nobody has another.
func (l lease) is(token int64) bool { return l.token == token && !l.ended }

func (l lease) public() store.Lease {
	return store.Lease{Token: l.token, Holder: l.holder, Until: session.Instant(l.until)}
}

// Acquire takes the lease.
func (s *Store) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	if err := checkLength(length); err != nil {
		return store.Lease{}, err
	}
	var taken store.Lease
	err := s.write(ctx, r, func(w *row) error {
		now := s.data.now()
		if w.lease.live(now) {
			return w.lease.busy(r.ID)
		}
		taken = s.data.grant(w, holder, now.Add(length))
		return nil
	})
	return taken, err
}

// grant gives a session's lease to a new holder.
func (d *data) grant(w *row, holder string, until time.Time) store.Lease {
	d.token++
	w.lease = lease{token: d.token, holder: holder, until: until}
	return w.lease.public()
}

func checkLength(length time.Duration) error {
	if length <= 0 {
		return &session.InvalidError{Field: "length", Reason: fmt.Sprintf("%s is no time to hold a lease", length)}
	}
	return nil
}

// Renew prolongs the lease.
func (s *Store) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	if err := checkLength(length); err != nil {
		return store.Lease{}, err
	}
	var renewed store.Lease
	err := s.leased(ctx, r, func(w *row) error {
		if w == nil {
			return &session.FencedError{ID: r.ID, Token: l.Token}
		}
		if l.Token == 0 || !w.lease.is(l.Token) {
			return &session.FencedError{ID: r.ID, Token: l.Token, Have: w.lease.token}
		}
		w.lease.until = s.data.now().Add(length)
		renewed = w.lease.public()
		return nil
	})
	return renewed, err
}

// Release ends the lease.
func (s *Store) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	return s.leased(ctx, r, func(w *row) error {
		if w != nil && w.lease.token == l.Token {
			w.lease.ended = true
		}
		return nil
	})
}

// leased is write for a holder, whose session may be gone: then row is nil.
func (s *Store) leased(ctx context.Context, r store.Ref, change func(*row) error) error {
	if err := s.open(ctx, r); err != nil {
		return err
	}
	s.data.mu.Lock()
	err := change(s.data.rows[r])
	s.data.mu.Unlock()
	if err == nil {
		s.data.bells.ring(r)
	}
	return err
}

// Holding is the live lease.
func (s *Store) Holding(ctx context.Context, r store.Ref) (store.Lease, bool, error) {
	var l store.Lease
	var live bool
	err := s.read(ctx, r, func(w *row) error {
		if live = w.lease.live(s.data.now()); live {
			l = w.lease.public()
		}
		return nil
	})
	return l, live, err
}
