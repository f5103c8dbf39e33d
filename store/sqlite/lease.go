package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// leaseRow is a lease as its four columns have it.
type leaseRow struct {
	store.Lease
	until int64
	open  bool
}

func (l *leaseRow) columns() []any { return []any{&l.Token, &l.Holder, &l.until, &l.open} }

func (l *leaseRow) lease() admission.Lease {
	l.Until = instant(l.until)
	return admission.Lease{Lease: l.Lease, Released: !l.open}
}

// leased asks whether a session's lease is live.
func (w row) leased(now time.Time) func() bool {
	return func() bool { return w.lease.Live(now) }
}

// Acquire takes the lease. A holder named by package holder whose process is
// dead is replaced at once.
func (s *Store) Acquire(ctx context.Context, r store.Ref, name string, length time.Duration) (store.Lease, error) {
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	var taken admission.Lease
	err := s.writeSession(ctx, r, func(ctx context.Context, c *conn, w row) error {
		now := s.now()
		if err := w.lease.Admit(r.ID, 0, w.leased(now)); err != nil {
			return err
		}
		taken = admission.NewLease(name, now, length)
		if err := c.numberLease(ctx, &taken); err != nil {
			return err
		}
		return c.setLease(ctx, w.log, taken)
	})
	if err != nil {
		return store.Lease{}, err
	}
	return taken.Lease, nil
}

// numberLease gives a lease the next token.
func (c *conn) numberLease(ctx context.Context, l *admission.Lease) error {
	_, err := c.one(ctx, "UPDATE counters SET value = value + 1 WHERE name = 'lease' RETURNING value", nil, &l.Token)
	return err
}

// leaseSet are the columns of a lease as a statement sets them.
const leaseSet = "lease_token = ?, lease_holder = ?, lease_until = ?, lease_open = ?"

func leaseArgs(l admission.Lease) []any {
	return []any{l.Token, l.Holder, micros(l.Until), !l.Released}
}

func (c *conn) setLease(ctx context.Context, log int64, l admission.Lease) error {
	_, err := c.exec(ctx, "UPDATE sessions SET "+leaseSet+" WHERE log = ?", append(leaseArgs(l), log)...)
	return err
}

// Renew prolongs the lease from now on.
func (s *Store) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	if err := admission.CheckLength(length); err != nil {
		return store.Lease{}, err
	}
	var renewed admission.Lease
	err := s.writeLeased(ctx, r, func(ctx context.Context, c *conn, w row) error {
		if err := w.lease.CheckToken(r.ID, l.Token); err != nil {
			return err
		}
		renewed = w.lease
		renewed.Until = session.Instant(s.now().Add(length))
		return c.setLease(ctx, w.log, renewed)
	})
	if err != nil {
		return store.Lease{}, err
	}
	return renewed.Lease, nil
}

// Release ends the lease.
func (s *Store) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	return s.writeLeased(ctx, r, func(ctx context.Context, c *conn, w row) error {
		if !w.lease.Is(l.Token) {
			return nil
		}
		w.lease.Released = true
		return c.setLease(ctx, w.log, w.lease)
	})
}

// writeLeased is writeSession for a holder whose session may be gone: then the
// row is the zero row.
func (s *Store) writeLeased(ctx context.Context, r store.Ref, change func(context.Context, *conn, row) error) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	return s.write(ctx, &request{ref: r, do: func(ctx context.Context, c *conn) error {
		w, _, err := c.find(ctx, r, 0)
		if err != nil {
			return err
		}
		return change(ctx, c, w)
	}})
}

// Holding is the live lease.
func (s *Store) Holding(ctx context.Context, r store.Ref) (store.Lease, bool, error) {
	w, err := s.mark(ctx, r)
	if err != nil || !w.lease.Live(s.now()) {
		return store.Lease{}, false, err
	}
	return w.lease.Lease, true, nil
}
