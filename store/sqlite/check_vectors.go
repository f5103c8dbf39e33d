package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// strayVectors are those of what is no message, or is none any more.
const strayVectors = `FROM message_vectors WHERE (log, seq) IN (SELECT v.log, v.seq FROM message_vectors v
JOIN changes c ON c.log = v.log AND c.seq = v.seq WHERE c.discarded <> 0 OR c.kind <> 'message_added')`

// checkVectors looks for vectors of what cannot be found, and for marks that
// have passed what waits: nobody would ever be asked to embed it. That vectors
// belong to something at all is checked with the other tables.
func (s *Store) checkVectors(ctx context.Context) (problems []string, err error) {
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		problems, err = c.vectorProblems(ctx)
		return err
	})
	return problems, err
}

func (c *conn) vectorProblems(ctx context.Context) (problems []string, err error) {
	var stray int64
	if _, err := c.one(ctx, "SELECT count(*) "+strayVectors, nil, &stray); err != nil {
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
			problems = append(problems, fmt.Sprintf("what waits for embedder %s is not looked for", name))
		}
	}
	return problems, nil
}

// passed reports whether anything waits up to the marks of an embedder, or
// will once it is written there.
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

// repairVectors has embedders look for everything again, and removes vectors
// that are of nothing.
func (s *Store) repairVectors(ctx context.Context) (mended []string, err error) {
	if mended, err = s.checkVectors(ctx); err != nil || len(mended) == 0 {
		return nil, err
	}
	err = s.write(ctx, &request{remembers: true, do: func(ctx context.Context, c *conn) error {
		for _, statement := range []string{"DELETE " + strayVectors, "UPDATE embedders SET changes = 0, entries = 0"} {
			if _, err := c.exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}})
	return mended, err
}
