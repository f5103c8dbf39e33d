package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// embedderPlace is a place of one embedder.
type embedderPlace struct {
	eid int64
	store.VectorPlace
}

// cellBuilding lists the places whose index of vectors this node will make,
// because a search had to compare many vectors there. A node may lose the list:
// the next search there lists the place again.
type cellBuilding struct {
	cache   store.CellCache
	above   int // how many vectors a search compares before their place gets an index
	maxCell int

	wanted chan struct{} // holds one
	mu     sync.Mutex
	places map[embedderPlace]bool // guarded by mu
}

func (b *cellBuilding) want(p embedderPlace) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.places == nil {
		b.places = map[embedderPlace]bool{}
	}
	b.places[p] = true
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// buildWanted makes the indexes of wanted places until the store is closed.
func (s *Store) buildWanted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.cells.wanted:
		}
		s.cells.mu.Lock()
		places := slices.Collect(maps.Keys(s.cells.places))
		clear(s.cells.places)
		s.cells.mu.Unlock()
		for _, p := range places {
			if err := s.buildCells(ctx, p); err != nil && ctx.Err() == nil {
				s.config.Logger.Warn("vectors were not indexed, searches compare all of them", "err", err)
			}
		}
	}
}

// inPlace runs a transaction that holds the lock of a place. Each statement sees
// what was committed before the lock was taken.
func (s *Store) inPlace(ctx context.Context, p store.VectorPlace, do func(pgx.Tx) error) error {
	return s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if err := lockPlace(ctx, tx, p); err != nil {
				return err
			}
			return do(tx)
		})
	})
}

// buildCells makes the index of a place. As soon as the place has a row, whoever
// stores a vector puts it into a cell; what was stored before is added here.
func (s *Store) buildCells(ctx context.Context, p embedderPlace) error {
	done := false
	err := s.inPlace(ctx, p.VectorPlace, func(tx pgx.Tx) error {
		row, err := readPlace(ctx, tx, p.eid, p.VectorPlace)
		if done = row.ready; err != nil || row.pid > 0 {
			return err
		}
		if err := tx.QueryRow(ctx, `INSERT INTO vector_places (eid, tenant, user_id, log, dimensions) VALUES ($1, $2, $3, $4, $5) RETURNING pid`,
			p.eid, p.Tenant, p.User, p.Log, p.Dimensions).Scan(&row.pid); err != nil {
			return err
		}
		_, err = addCell(ctx, tx, row.pid, make([]float32, p.Dimensions))
		return err
	})
	for err == nil && !done {
		err = s.inPlace(ctx, p.VectorPlace, func(tx pgx.Tx) error {
			row, err := readPlace(ctx, tx, p.eid, p.VectorPlace)
			if err != nil || row.pid == 0 { // the last session of the place was deleted
				done = row.pid == 0
				return err
			}
			some, err := withoutCell(ctx, tx, p)
			if err != nil {
				return err
			}
			if len(some.a) == 0 {
				done = true
				_, err := tx.Exec(ctx, `UPDATE vector_places SET ready = true WHERE pid = $1`, row.pid)
				return err
			}
			cells, err := updateCells(ctx, tx, row, s.cells.cache.Of(row.pid))
			if err != nil {
				return err
			}
			return s.addMembers(ctx, tx, p.eid, row, cells, some)
		})
	}
	return err
}

// partVectors is how many vectors are put into cells in one transaction.
const partVectors = 512

// withoutCell reads some vectors of a place that are in no cell.
func withoutCell(ctx context.Context, tx pgx.Tx, p embedderPlace) (some vectorRows, err error) {
	rows, err := tx.Query(ctx, `SELECT v.log, v.seq, v.vector FROM (
			SELECT n.log FROM listing l JOIN lineage n ON n.sid = l.sid WHERE $2::text <> '' AND l.tenant = $1 AND l.user_id = $2
			UNION SELECT $3::bigint WHERE $2::text = '') g
		JOIN message_vectors v ON v.log = g.log AND v.eid = $4 AND v.vector IS NOT NULL
		WHERE NOT EXISTS (SELECT 1 FROM vector_members m WHERE m.log = v.log AND m.seq = v.seq AND m.eid = v.eid) AND `+dimensionsOf+` = $5 LIMIT $6`,
		p.Tenant, p.User, p.Log, p.eid, p.Dimensions, partVectors)
	if err != nil {
		return some, err
	}
	var log, seq int64
	var vector []byte
	_, err = pgx.ForEachRow(rows, []any{&log, &seq, &vector}, func() error {
		some.a, some.b, some.vectors = append(some.a, log), append(some.b, seq), append(some.vectors, slices.Clone(vector))
		return nil
	})
	return some, err
}

// dimensionsOf is what store.Packed.Dimensions returns for a vector: several
// begin with a mark and their dimensions.
const dimensionsOf = `CASE WHEN length(v.vector) > 8 AND substr(v.vector, 1, 4) = '\x0e5ec07f'::bytea
	THEN get_byte(v.vector, 4) + (get_byte(v.vector, 5) << 8) + (get_byte(v.vector, 6) << 16) ELSE length(v.vector) - 4 END`
