package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// orphanVectors selects vectors of something that is not a message, or of a
// discarded one.
const orphanVectors = `FROM message_vectors WHERE (log, seq) IN (SELECT v.log, v.seq FROM message_vectors v
JOIN changes c ON c.log = v.log AND c.seq = v.seq WHERE c.discarded <> 0 OR c.kind <> 'message_added')`

// checkVectors looks for orphan vectors, and for marks that lie behind passages
// without a vector, which would never be embedded.
func (s *Store) checkVectors(ctx context.Context) (problems []string, err error) {
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		problems, err = c.vectorProblems(ctx)
		return err
	})
	return problems, err
}

func (c *conn) vectorProblems(ctx context.Context) (problems []string, err error) {
	var stray int64
	if _, err := c.one(ctx, "SELECT count(*) "+orphanVectors, nil, &stray); err != nil {
		return nil, err
	}
	if stray > 0 {
		problems = append(problems, fmt.Sprintf("%d vectors are of no message, or of one that was discarded", stray))
	}
	known := map[string]embedder{}
	err = c.each(ctx, "SELECT name, id, changes, entries FROM embedders", nil, func(rows *sql.Rows) error {
		var name string
		var e embedder
		err := rows.Scan(&name, &e.id, &e.changes, &e.entries)
		known[name] = e
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, e := range known {
		passed, err := c.passed(ctx, e)
		if err != nil {
			return nil, err
		}
		if passed {
			problems = append(problems, fmt.Sprintf("the mark of embedder %s lies behind passages without a vector", name))
		}
	}
	return problems, nil
}

// passed reports whether a mark of an embedder lies behind a passage without a
// vector, or beyond the end of the log.
func (c *conn) passed(ctx context.Context, e embedder) (bool, error) {
	var last int64
	if _, err := c.one(ctx, "SELECT coalesce(max(n), 0) FROM changes", nil, &last); err != nil || e.changes > last {
		return true, err
	}
	messages, err := c.waitingMessages(ctx, embedder{id: e.id}, e.changes, 1)
	if err != nil || len(messages) > 0 {
		return true, err
	}
	entries, err := c.waitingEntries(ctx, embedder{id: e.id}, 1)
	return len(entries) > 0 && entries[0].n <= e.entries, err
}

// repairVectors sets all marks back to the beginning and removes orphan vectors.
func (s *Store) repairVectors(ctx context.Context) (repaired []string, err error) {
	if repaired, err = s.checkVectors(ctx); err != nil || len(repaired) == 0 {
		return nil, err
	}
	err = s.write(ctx, &request{keepsCache: true, do: func(ctx context.Context, c *conn) error {
		for _, statement := range []string{"DELETE " + orphanVectors, "UPDATE embedders SET changes = 0, entries = 0"} {
			if _, err := c.exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}})
	return repaired, err
}
