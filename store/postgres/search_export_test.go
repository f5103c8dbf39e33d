package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// OpenBusy opens a store that is never idle, so that it indexes only when it
// is told to.
func OpenBusy(ctx context.Context, url string) (*Store, error) { return openIdle(ctx, url, time.Hour) }

// OpenEager opens a store that is idle at once.
func OpenEager(ctx context.Context, url string) (*Store, error) { return openIdle(ctx, url, 0) }

func openIdle(ctx context.Context, url string, after time.Duration) (*Store, error) {
	s, err := newStore(url, Config{})
	if err != nil {
		return nil, err
	}
	s.index.quiet, s.index.late, s.index.soon = after, after, after
	s.index.atOnce = 2 // so that tests meet the next ones
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Index indexes every log that this store has written to or read, as if it had
// been searched before.
func (s *Store) Index(ctx context.Context) {
	refs, logs := s.index.take()
	for _, r := range refs {
		var log int64
		if s.row(ctx, r, `SELECT sid FROM sessions`, &log) == nil {
			logs = append(logs, log)
		}
	}
	s.index.wantLogs(logs...)
	s.indexWanted(ctx)
}

// LogLock is where the locks of logs lie.
const LogLock = logLock

// IndexWanted indexes what this store wants to see in the index.
func (s *Store) IndexWanted(ctx context.Context) { s.indexWanted(ctx) }

// TinyCells makes even small places worth an index, with cells of at most three
// vectors. Nothing may use the store yet.
func (s *Store) TinyCells() { s.cells.above, s.cells.maxCell = 0, 3 }

// BuildCells makes the index of vectors of every place there is.
func (s *Store) BuildCells(ctx context.Context) error {
	var places []embedderPlace
	err := s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT DISTINCT v.eid, l.tenant, coalesce(l.user_id, ''), CASE WHEN coalesce(l.user_id, '') = '' THEN v.log ELSE 0 END, `+dimensionsOf+`
			FROM message_vectors v JOIN lineage n ON n.log = v.log JOIN listing l ON l.sid = n.sid WHERE v.vector IS NOT NULL`)
		if err != nil {
			return err
		}
		places, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p embedderPlace, err error) {
			err = row.Scan(&p.eid, &p.Tenant, &p.User, &p.Log, &p.Dimensions)
			return p, err
		})
		return err
	})
	for _, p := range places {
		if err == nil {
			err = s.buildCells(ctx, p)
		}
	}
	return err
}

// Unindexed counts the logs that searches had to read.
func (s *Store) Unindexed() int {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	return len(s.index.logs)
}
