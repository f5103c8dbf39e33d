package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// dueOf is the column that says when somebody should work on a session.
func dueOf(s session.Session) *time.Time {
	if at, ok := s.DueAt(); ok {
		return &at
	}
	return nil
}

// What waits in a tenant has two reasons, each with an index that has the
// longest waiting first. The time of what an earlier program wrote is not known.
// The limit stands in the text: for one that it does not know, the server makes
// a plan for a tenth of all rows, or plans every query anew.
const (
	nextWaitingTenant = `SELECT coalesce(min(tenant), '') FROM (
		SELECT (SELECT tenant FROM sessions WHERE due IS NOT NULL AND tenant > @after ORDER BY tenant LIMIT 1) AS tenant
		UNION ALL SELECT (SELECT tenant FROM inbox WHERE NOT taken AND tenant > @after ORDER BY tenant LIMIT 1)) t`

	waitingDue = `(SELECT s.id, l.kind, greatest(s.due, 'epoch') AS since FROM sessions s JOIN listing l ON l.sid = s.sid
		WHERE s.tenant = @tenant AND s.due <= coalesce(@now::timestamptz, statement_timestamp()) AND NOT ` + held + ` ORDER BY s.due LIMIT %[1]d)`
	waitingInbox = `(SELECT s.id, l.kind, greatest(i.posted_at, 'epoch') AS since FROM inbox i JOIN sessions s ON s.sid = i.sid JOIN listing l ON l.sid = s.sid
		WHERE i.tenant = @tenant AND ` + unread + ` AND l.status = '` + string(session.Active) + `' AND NOT ` + held + ` ORDER BY i.posted_at LIMIT %[1]d)`
)

// Waiting lists what nobody works on.
func (s *Store) Waiting(ctx context.Context, after string, limit int) (found []store.Waiting, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		found, err = store.TakeTurns(after, limit,
			func(after string) (next string, err error) {
				err = conn.QueryRow(ctx, nextWaitingTenant, pgx.NamedArgs{"after": after}).Scan(&next)
				return next, err
			},
			func(tenant string, n int) ([]store.Waiting, error) { return s.waitingOf(ctx, conn, tenant, n) })
		return err
	})
	return found, err
}

// waitingOf lists the sessions of a tenant that wait longest.
func (s *Store) waitingOf(ctx context.Context, conn *pgx.Conn, tenant string, limit int) ([]store.Waiting, error) {
	rows, err := conn.Query(ctx, fmt.Sprintf(waitingDue+` UNION ALL `+waitingInbox, limit), pgx.NamedArgs{"tenant": tenant, "now": s.clock()})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Waiting, error) {
		w := store.Waiting{Ref: store.Ref{Tenant: tenant}}
		err := row.Scan(&w.Ref.ID, &w.Kind, &w.Since)
		w.Since = session.Instant(w.Since)
		return w, err
	})
	return store.LongestWaiting(limit, found), err
}
