package postgres

import (
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
			WHERE e.log = $1 AND `+notDiscarded+` AND NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.log = c.log AND v.seq = c.seq AND v.eid = e.eid)`, log)
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
