package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/holder"
)

// lease is the newest lease of a session, alive or not. Its token stays known
// for ever: it is what late writers are measured by.
type lease struct {
	token  int64 // 0: there never was one
	holder string
	until  time.Time
	open   bool // not released
}

// live reports a lease whose time is not over and whose holder is not known
// to be dead.
func (l lease) live(now time.Time) bool {
	return l.open && now.Before(l.until) && !holder.Dead(l.holder)
}

func (l lease) busy(id string) error {
	return &session.BusyError{ID: id, Holder: l.holder, Until: l.until}
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
func (l lease) is(token int64) bool { return token != 0 && l.token == token && l.open }

func (l lease) public() store.Lease {
	return store.Lease{Token: l.token, Holder: l.holder, Until: l.until}
}

// Acquire takes the lease. A holder named by package holder whose process is
// dead is replaced at once.
func (s *Store) Acquire(ctx context.Context, r store.Ref, name string, length time.Duration) (store.Lease, error) {
	if err := checkLength(length); err != nil {
		return store.Lease{}, err
	}
	var taken lease
	err := s.writeSession(ctx, r, func(ctx context.Context, c *conn, w row) error {
		now := s.now()
		if w.lease.live(now) {
			return w.lease.busy(r.ID)
		}
		taken = lease{holder: name, until: session.Instant(now.Add(length)), open: true}
		return c.takeLease(ctx, w.log, &taken)
	})
	if err != nil {
		return store.Lease{}, err
	}
	return taken.public(), nil
}

// takeLease gives a lease the next token and writes it.
func (c *conn) takeLease(ctx context.Context, log int64, l *lease) error {
	if _, err := c.one(ctx, "UPDATE counters SET value = value + 1 WHERE name = 'lease' RETURNING value", nil, &l.token); err != nil {
		return err
	}
	return c.setLease(ctx, log, *l)
}

func checkLength(length time.Duration) error {
	if length <= 0 {
		return &session.InvalidError{Field: "length", Reason: fmt.Sprintf("%s is no time to hold a lease", length)}
	}
	return nil
}

func (c *conn) setLease(ctx context.Context, log int64, l lease) error {
	_, err := c.exec(ctx, "UPDATE sessions SET lease_token = ?, lease_holder = ?, lease_until = ?, lease_open = ? WHERE log = ?",
		l.token, l.holder, micros(l.until), l.open, log)
	return err
}

// Renew prolongs the lease from now on.
func (s *Store) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	if err := checkLength(length); err != nil {
		return store.Lease{}, err
	}
	var renewed lease
	err := s.writeLeased(ctx, r, func(ctx context.Context, c *conn, w row) error {
		if !w.lease.is(l.Token) { // nor is that of a session that is gone
			return &session.FencedError{ID: r.ID, Token: l.Token, Have: w.lease.token}
		}
		renewed = w.lease
		renewed.until = session.Instant(s.now().Add(length))
		return c.setLease(ctx, w.log, renewed)
	})
	if err != nil {
		return store.Lease{}, err
	}
	return renewed.public(), nil
}

// Release ends the lease.
func (s *Store) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	return s.writeLeased(ctx, r, func(ctx context.Context, c *conn, w row) error {
		if !w.lease.is(l.Token) {
			return nil
		}
		w.lease.open = false
		return c.setLease(ctx, w.log, w.lease)
	})
}

// writeLeased is writeSession for a holder, whose session may be gone: then
// the row is the zero row.
func (s *Store) writeLeased(ctx context.Context, r store.Ref, change func(context.Context, *conn, row) error) error {
	if err := s.usableFor(ctx, r); err != nil {
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
	var held lease
	err := s.readSession(ctx, r, func(_ context.Context, _ *conn, w row) error {
		held = w.lease
		return nil
	})
	if err != nil || !held.live(s.now()) {
		return store.Lease{}, false, err
	}
	return held.public(), true, nil
}
