package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// notForgotten is the SQL condition of a change that was not taken out of search.
const notForgotten = `NOT EXISTS (SELECT 1 FROM forgotten f WHERE f.log = c.log AND c.seq <= f.upto)`

// ForgetTranscripts takes what was said in the sessions of a user out of search.
// Each log has a transaction of its own, because a database has few locks.
func (s *Store) ForgetTranscripts(ctx context.Context, tenant, user string, dry bool) (int, error) {
	if err := s.usable(ctx, store.Owner{Tenant: tenant, Scope: store.ScopeUser, Name: user}.Check()); err != nil {
		return 0, err
	}
	var sessions int
	var logs []int64
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM listing WHERE tenant = $1 AND user_id = $2`, tenant, user).Scan(&sessions); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, `SELECT DISTINCT n.log FROM listing l JOIN lineage n ON n.sid = l.sid WHERE l.tenant = $1 AND l.user_id = $2 ORDER BY n.log`, tenant, user)
		if err != nil {
			return err
		}
		logs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if err != nil || dry {
		return sessions, err
	}
	for _, log := range logs {
		err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			// Each statement must see what was committed before the locks were taken.
			return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
				return forgetLog(ctx, tx, store.PlaceOf(tenant, user, log, 0), log)
			})
		})
		if err != nil {
			return 0, err
		}
	}
	return sessions, nil
}

// forgetLog takes all messages of a log out of search. Whoever indexes or embeds
// them takes the same lock.
func forgetLog(ctx context.Context, tx pgx.Tx, place store.VectorPlace, log int64) error {
	if err := lockLog(ctx, tx, log); err != nil {
		return err
	}
	if err := lockPlace(ctx, tx, place); err != nil {
		return err
	}
	cells, err := cellsOf(ctx, tx, []int64{log})
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`INSERT INTO forgotten (log, upto) SELECT log, max(seq) FROM changes WHERE log = $1 GROUP BY log ON CONFLICT (log) DO UPDATE SET upto = excluded.upto`,
		`DELETE FROM passages WHERE log = $1`,
		`DELETE FROM message_vectors WHERE log = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, log); err != nil {
			return err
		}
	}
	return clearCells(ctx, tx, cells, place.Tenant, place.User)
}
