package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// dueUnknown stands in rows that an earlier program wrote.
const dueUnknown = -1

// dueOf is the column that says when somebody should work on a session.
func dueOf(s session.Session) any {
	if at, ok := s.DueAt(); ok {
		return micros(at)
	}
	return nil
}

// waitingSince are the two reasons why a session of a tenant may wait, each with
// the index that has the longest waiting first.
const (
	waitingDue   = `SELECT s.id, s.kind, s.due, ` + leaseOf + ` FROM sessions s WHERE s.tenant = ? AND s.due <= ? ORDER BY s.due`
	waitingInbox = `SELECT s.id, s.kind, i.at, ` + leaseOf + ` FROM inbox i JOIN sessions s ON s.log = i.log
WHERE i.tenant = ? AND i.taken = 0 AND i.at <= ? AND s.status = '` + string(session.Active) + `' ORDER BY i.at`
	leaseOf = `s.lease_token, s.lease_holder, s.lease_until, s.lease_open`
)

// errEnough ends the reading of rows.
var errEnough = errors.New("enough")

// Waiting lists what nobody works on.
func (s *Store) Waiting(ctx context.Context, after string, limit int) ([]store.Waiting, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	now := s.now()
	var found []store.Waiting
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		var err error
		found, err = store.TakeTurns(after, limit,
			func(after string) (string, error) { return c.nextWaitingTenant(ctx, after) },
			func(tenant string, n int) ([]store.Waiting, error) { return c.waitingOf(ctx, tenant, now, n) })
		return err
	})
	return found, err
}

// nextWaitingTenant returns the first tenant after one that has something due
// or unread; "" if there is none.
func (c *conn) nextWaitingTenant(ctx context.Context, after string) (string, error) {
	var next sql.NullString
	_, err := c.one(ctx, `SELECT min(tenant) FROM (SELECT min(tenant) AS tenant FROM sessions WHERE due IS NOT NULL AND tenant > ?1
UNION ALL SELECT min(tenant) FROM inbox WHERE taken = 0 AND tenant > ?1)`, []any{after}, &next)
	return next.String, err
}

// waitingOf lists the sessions of a tenant that wait longest.
func (c *conn) waitingOf(ctx context.Context, tenant string, now time.Time, limit int) ([]store.Waiting, error) {
	var lists [2][]store.Waiting
	for i, query := range []string{waitingDue, waitingInbox} {
		list := &lists[i]
		err := c.each(ctx, query, []any{tenant, micros(now)}, func(rows *rows) error {
			w := store.Waiting{Ref: store.Ref{Tenant: tenant}}
			var since int64
			lease, err := scanLease(rows, &w.Ref.ID, &w.Kind, &since)
			if err != nil || lease.Live(now) {
				return err
			}
			w.Since = instant(max(since, 0))
			if *list = append(*list, w); len(*list) == limit {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
	}
	return store.LongestWaiting(limit, lists[0], lists[1]), nil
}
