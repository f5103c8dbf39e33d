package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// checkMarks looks for messages without a vector before the mark of an
// embedder: they would never be embedded.
func (s *Store) checkMarks(ctx context.Context, log int64) (problems []string, err error) {
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		problems = nil
		rows, err := tx.Query(ctx, `SELECT n.name, c.body FROM embedded e JOIN embedders n ON n.eid = e.eid
				JOIN changes c ON c.log = e.log AND c.seq <= e.upto AND c.kind = '`+messageAdded+`'
			WHERE e.log = $1 AND `+searchable+` AND NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.log = c.log AND v.seq = c.seq AND v.eid = e.eid)`, log)
		if err != nil {
			return err
		}
		var name string
		var body []byte
		_, err = pgx.ForEachRow(rows, []any{&name, &body}, func() error {
			problem := fmt.Sprintf("log %d: the mark of embedder %s lies behind messages without a vector", log, name)
			if m, ok := messageOf(body); ok && store.MessageText(m) != "" && !slices.Contains(problems, problem) {
				problems = append(problems, problem)
			}
			return nil
		})
		return err
	})
	return problems, err
}

// repairMarks sets the marks of a log back to its beginning if a message would
// be missed.
func (s *Store) repairMarks(ctx context.Context, log int64) (wrong []string, err error) {
	wrong, err = s.checkMarks(ctx, log)
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	return wrong, s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `UPDATE embedded SET upto = 0 WHERE log = $1`, log)
		return err
	})
}

// checkCells compares the index of vectors with the vectors.
func (s *Store) checkCells(ctx context.Context) (problems []string, err error) {
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		problems = nil
		wrong := 0
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM vector_members m WHERE NOT EXISTS (SELECT 1 FROM vector_cells c WHERE c.cell = m.cell)`).Scan(&wrong); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT m.part, m.vector, v.vector FROM vector_members m JOIN message_vectors v ON v.log = m.log AND v.seq = m.seq AND v.eid = m.eid`)
		if err != nil {
			return err
		}
		var part int
		var have, want []byte
		if _, err := pgx.ForEachRow(rows, []any{&part, &have, &want}, func() error {
			if parts := store.Packed(want).Parts(); part >= len(parts) || !bytes.Equal(have, parts[part]) {
				wrong++
			}
			return nil
		}); err != nil {
			return err
		}
		places, err := readyPlaces(ctx, tx)
		if err != nil {
			return err
		}
		for _, p := range places {
			missing, err := withoutCell(ctx, tx, p)
			if err != nil {
				return err
			}
			wrong += len(missing.a)
		}
		if wrong > 0 {
			problems = append(problems, fmt.Sprintf("the index of vectors is wrong or lacks something in %d places", wrong))
		}
		return nil
	})
	return problems, err
}

// readyPlaces lists the places whose index is complete.
func readyPlaces(ctx context.Context, tx pgx.Tx) ([]embedderPlace, error) {
	rows, err := tx.Query(ctx, `SELECT eid, tenant, user_id, log, dimensions FROM vector_places WHERE ready ORDER BY pid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p embedderPlace, err error) {
		err = row.Scan(&p.eid, &p.Tenant, &p.User, &p.Log, &p.Dimensions)
		return p, err
	})
}

// repairCells makes the index of vectors anew if anything is wrong with it.
func (s *Store) repairCells(ctx context.Context) (wrong []string, err error) {
	wrong, err = s.checkCells(ctx)
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	return wrong, s.rebuildCells(ctx)
}

// rebuildCells makes the index of vectors anew, for all places that have one.
func (s *Store) rebuildCells(ctx context.Context) error {
	var places []embedderPlace
	err := s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		places, err = readyPlaces(ctx, tx)
		return err
	})
	if err == nil {
		err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `DELETE FROM vector_members m WHERE NOT EXISTS (SELECT 1 FROM vector_cells c WHERE c.cell = m.cell)`)
			return err
		})
	}
	for _, p := range places {
		if err != nil {
			return err
		}
		err = s.inPlace(ctx, p.VectorPlace, func(tx pgx.Tx) error {
			row, err := readPlace(ctx, tx, p.eid, p.VectorPlace)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `DELETE FROM vector_members m WHERE m.cell IN (SELECT c.cell FROM vector_cells c WHERE c.pid = $1)`, row.pid); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `DELETE FROM vector_places WHERE pid = $1`, row.pid)
			return err
		})
		if err == nil {
			err = s.buildCells(ctx, p)
		}
	}
	return err
}
