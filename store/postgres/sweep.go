package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Interrupted lists sessions whose execution was interrupted.
func (s *Store) Interrupted(ctx context.Context, tenant string) ([]store.Ref, error) {
	return s.unheld(ctx, tenant, "at_work")
}

// Unread lists sessions whose inbox waits for somebody.
func (s *Store) Unread(ctx context.Context, tenant string) ([]store.Ref, error) {
	return s.unheld(ctx, tenant, "sid IN (SELECT i.sid FROM inbox i WHERE "+unread+")")
}

// unheld lists sessions of a tenant that nobody holds.
func (s *Store) unheld(ctx context.Context, tenant, condition string) ([]store.Ref, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	args := pgx.NamedArgs{"tenant": tenant, "now": s.clock()}
	var refs []store.Ref
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT tenant, id FROM sessions
			WHERE tenant = @tenant AND `+condition+` AND NOT `+held+` ORDER BY id`, args)
		if err == nil {
			refs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.Ref])
		}
		return err
	})
	return refs, err
}

const idleSessions = `SELECT ` + headerColumns + ` FROM listing l JOIN sessions s ON s.sid = l.sid
	WHERE l.tenant = @tenant AND s.live = 0 AND NOT ` + held + `
		AND NOT s.unreadable
		AND CASE WHEN @statuses::text[] = '{}' THEN l.status <> '` + string(session.Deleted) + `' ELSE l.status = ANY (@statuses::text[]) END
		AND l.kind <> '` + string(session.KindPolicy) + `'
		AND l.updated_slot <= @idle_slot AND s.updated_at <= @idle_since AND (NOT @expired::boolean OR l.expires_at <= @as_of)
		AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.sid = s.sid AND ` + unread + `)
	ORDER BY l.updated_slot, s.updated_at, s.id LIMIT @limit`

// Sweepable lists sessions that are no longer wanted.
func (s *Store) Sweepable(ctx context.Context, tenant string, r store.Retention, now time.Time) ([]session.Info, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	r, err := r.Check()
	if err != nil {
		return nil, err
	}
	args := pgx.NamedArgs{
		"tenant": tenant, "now": s.clock(), "statuses": texts(r.Statuses), "expired": r.Expired, "limit": r.Limit,
		"as_of": session.Instant(now),
	}
	idleSince := time.Unix(1<<40, 0)
	if r.IdleFor > 0 {
		idleSince = now.Add(-r.IdleFor)
	}
	args["idle_since"], args["idle_slot"] = session.Instant(idleSince), slot(idleSince)
	var found []headerRow
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, idleSessions, args)
		if err == nil {
			found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[headerRow])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var infos []session.Info
	for _, row := range found {
		if info, err := row.info(); err == nil && r.Fits(info, now) {
			infos = append(infos, info)
		}
	}
	return r.Oldest(slices.Clip(infos)), nil
}
