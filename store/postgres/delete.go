package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// Delete removes a session for good. The stretches of its log that forks
// share stay until the last of these is deleted.
func (s *Store) Delete(ctx context.Context, r store.Ref, fence int64) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	defer s.warm.Drop(r)
	// A second try, after an answer was lost, deletes the same session only and
	// not one that was created under its id since.
	var target int64
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		s.config.OnWrite("before delete")
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			err := s.deleteIn(ctx, tx, r, fence, &target)
			s.config.OnWrite("before delete commit")
			return err
		})
		s.config.OnWrite("after delete")
		return err
	})
	if err == nil {
		s.announce(r)
	}
	return err
}

func (s *Store) deleteIn(ctx context.Context, tx pgx.Tx, r store.Ref, fence int64, target *int64) error {
	args := pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "now": s.clock()}
	var sid int64
	var l leaseRow
	err := tx.QueryRow(ctx, `SELECT sid, `+leaseColumns+` FROM sessions WHERE tenant = @tenant AND id = @id FOR UPDATE`, args).
		Scan(append([]any{&sid}, l.columns()...)...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case *target != 0 && *target != sid:
		return nil
	}
	if err := l.lease().AdmitDelete(r.ID, fence, l.isLive); err != nil {
		return err
	}
	*target = sid
	logs, err := lockLogs(ctx, tx, sid)
	if err != nil {
		return err
	}
	var user string
	if err := tx.QueryRow(ctx, `SELECT coalesce((SELECT user_id FROM listing WHERE sid = $1), '')`, sid).Scan(&user); err != nil {
		return err
	}
	for _, log := range logs {
		if err := lockPlace(ctx, tx, store.PlaceOf(r.Tenant, user, log, 0)); err != nil {
			return err
		}
	}
	cells, err := cellsOf(ctx, tx, logs)
	if err != nil {
		return err
	}
	// Snapshots, lineage, inbox, takings and keys are deleted with the row.
	if _, err := tx.Exec(ctx, `DELETE FROM sessions WHERE sid = $1`, sid); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM changes c USING needed n WHERE c.log = n.log AND c.seq > n.upto`,
		`DELETE FROM discards d USING needed n WHERE d.log = n.log AND d.from_seq > n.upto`,
		`DELETE FROM seals c USING needed n WHERE c.log = n.log AND c.first_seq > n.upto`,
		`DELETE FROM passages p USING needed n WHERE p.log = n.log AND p.seq > n.upto`,
		`DELETE FROM message_vectors v USING needed n WHERE v.log = n.log AND v.seq > n.upto`,
		`DELETE FROM embedded e USING needed n WHERE e.log = n.log AND n.upto = 0`,
		`DELETE FROM indexed i USING needed n WHERE i.log = n.log AND n.upto = 0`,
		`DELETE FROM forgotten f USING needed n WHERE f.log = n.log AND n.upto = 0`,
		`UPDATE indexed i SET upto = n.upto FROM needed n WHERE i.log = n.log AND i.upto > n.upto`,
	} {
		if _, err := tx.Exec(ctx, needed+statement, logs); err != nil {
			return err
		}
	}
	return clearCells(ctx, tx, cells, r.Tenant, user)
}

// needed finds up to which change forks need the logs of deleted sessions.
const needed = `WITH needed AS (
	SELECT g.log, coalesce((SELECT max(l.upto_seq) FROM lineage l WHERE l.log = g.log), 0) AS upto
	FROM unnest($1::bigint[]) AS g (log) WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.sid = g.log)) `

// lockLogs locks the logs that a session's history lies in, until the
// transaction ends: of two sessions that share one and are deleted at the same
// time, the second sees that it is the last.
func lockLogs(ctx context.Context, tx pgx.Tx, sid int64) ([]int64, error) {
	rows, err := tx.Query(ctx, `SELECT log FROM lineage WHERE sid = $1 ORDER BY log`, sid)
	if err != nil {
		return nil, err
	}
	logs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		if err := lockLog(ctx, tx, log); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

func lockLog(ctx context.Context, tx pgx.Tx, log int64) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+logLock+` # $1::bigint)`, log)
	return err
}

// logLock keeps the locks of logs apart from other advisory locks and from
// those of a store in another schema, because a database has one set of them.
const logLock = `((1751936871 # hashtext(current_schema())::bigint) << 32)`
