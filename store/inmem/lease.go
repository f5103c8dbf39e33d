package inmem

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// Acquire takes the lease.
func (s *Store) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	var taken store.Lease
	err := s.write(ctx, r, func(w *row) error {
		now := s.data.now()
		if err := w.lease.Admit(r.ID, 0, w.leased(now)); err != nil {
			return err
		}
		taken = s.data.grant(w, holder, now, length)
		return nil
	})
	return taken, err
}

// leased asks whether a session's lease is live.
func (w *row) leased(now time.Time) func() bool {
	return func() bool { return w.lease.Live(now) }
}

// grant gives a session's lease to a new holder.
func (d *data) grant(w *row, holder string, now time.Time, length time.Duration) store.Lease {
	d.token++
	w.lease = admission.NewLease(holder, now, length)
	w.lease.Token = d.token
	return w.lease.Lease
}

// Renew prolongs the lease.
func (s *Store) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	var renewed store.Lease
	err := s.writeLeased(ctx, r, func(w *row) error {
		if err := w.lease.CheckToken(r.ID, l.Token); err != nil {
			return err
		}
		w.lease.Until = session.Instant(s.data.now().Add(length))
		renewed = w.lease.Lease
		return nil
	})
	return renewed, err
}

// Release ends the lease.
func (s *Store) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	return s.writeLeased(ctx, r, func(w *row) error {
		if w.lease.Is(l.Token) {
			w.lease.Released = true
		}
		return nil
	})
}

// writeLeased is write for a holder whose session may be gone: then the row is
// empty.
func (s *Store) writeLeased(ctx context.Context, r store.Ref, change func(*row) error) error {
	err := s.write(ctx, r, change)
	if errors.Is(err, session.ErrNotFound) {
		return change(&row{})
	}
	return err
}

// Holding is the live lease.
func (s *Store) Holding(ctx context.Context, r store.Ref) (store.Lease, bool, error) {
	var l store.Lease
	var live bool
	err := s.read(ctx, r, func(w *row) error {
		if live = w.lease.Live(s.data.now()); live {
			l = w.lease.Lease
		}
		return nil
	})
	return l, live, err
}
