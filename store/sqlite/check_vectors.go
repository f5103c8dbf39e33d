package sqlite

import (
	"bytes"
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/store"
)

// orphanVectors selects vectors of something that is not a message, or of a
// discarded one.
const orphanVectors = `FROM message_vectors WHERE (log, seq) IN (SELECT v.log, v.seq FROM message_vectors v
JOIN changes c ON c.log = v.log AND c.seq = v.seq WHERE c.discarded <> 0 OR c.kind <> 'message_added')`

// checkVectors looks for orphan vectors, for marks that lie behind passages
// without a vector, which would never be embedded, and for a wrong index.
func (s *Store) checkVectors(ctx context.Context) (problems []string, err error) {
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		problems, err = c.vectorProblems(ctx)
		if err != nil {
			return err
		}
		cells, err := c.cellProblems(ctx)
		problems = append(problems, cells...)
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
	err = c.each(ctx, "SELECT name, id, changes, entries FROM embedders", nil, func(rows *rows) error {
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

// wrongMembers selects members of the index of vectors that are in no cell.
const wrongMembers = "FROM vector_members WHERE id >> 30 NOT IN (SELECT id FROM vector_cells)"

// cellProblems compares the index of vectors with the vectors.
func (c *conn) cellProblems(ctx context.Context) (problems []string, err error) {
	var wrong int64
	if _, err := c.one(ctx, "SELECT count(*) "+wrongMembers, nil, &wrong); err != nil {
		return nil, err
	}
	err = c.each(ctx, "SELECT m.part, m.vector, v.vector FROM vector_members m JOIN message_vectors v USING (log, seq, embedder)", nil, func(rows *rows) error {
		var part int
		var have, want []byte
		if err := rows.Scan(&part, &have, &want); err != nil {
			return err
		}
		if parts := store.Packed(want).Parts(); part >= len(parts) || !bytes.Equal(have, parts[part]) {
			wrong++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	places, err := c.readyPlaces(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		missing, err := c.withoutCell(ctx, p, place{})
		if err != nil {
			return nil, err
		}
		wrong += int64(len(missing))
	}
	if wrong > 0 {
		problems = append(problems, fmt.Sprintf("the index of vectors is wrong or lacks something in %d places", wrong))
	}
	return problems, nil
}

// readyPlaces lists the places whose index is complete.
func (c *conn) readyPlaces(ctx context.Context) (places []embedderPlace, err error) {
	err = c.each(ctx, "SELECT embedder, tenant, user_id, log, dimensions FROM vector_places WHERE ready = 1", nil, func(rows *rows) error {
		var p embedderPlace
		err := rows.Scan(&p.embedder, &p.Tenant, &p.User, &p.Log, &p.Dimensions)
		places = append(places, p)
		return err
	})
	return places, err
}

// rebuildCells makes the index of vectors anew, for all places that have one.
func (s *Store) rebuildCells(ctx context.Context) error {
	var places []embedderPlace
	err := s.write(ctx, &request{keepsCache: true, do: func(ctx context.Context, c *conn) (err error) {
		if places, err = c.readyPlaces(ctx); err != nil {
			return err
		}
		for _, statement := range []string{"DELETE FROM vector_members", "DELETE FROM vector_places"} {
			if _, err := c.exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}})
	for _, p := range places {
		if err == nil {
			err = s.buildCells(ctx, p)
		}
	}
	return err
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

// repairVectors sets all marks back to the beginning, removes orphan vectors and
// makes the index anew.
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
	if err == nil {
		err = s.rebuildCells(ctx)
	}
	return repaired, err
}
