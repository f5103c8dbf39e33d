package sqlite

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// placeRow is a row of the places that have an index of vectors.
type placeRow struct {
	id      int64 // 0: the place has no index
	ready   bool
	changed int64
}

func (c *conn) placeRow(ctx context.Context, embedder int64, p store.VectorPlace) (r placeRow, err error) {
	_, err = c.one(ctx, "SELECT id, ready, changed FROM vector_places WHERE embedder = ? AND tenant = ? AND user_id = ? AND log = ? AND dimensions = ?",
		[]any{embedder, p.Tenant, p.User, p.Log, p.Dimensions}, &r.id, &r.ready, &r.changed)
	return r, err
}

// updateCells brings cells up to the state that the connection sees. A connection
// that writes must use cells of its own: what it sees may never be committed.
func (c *conn) updateCells(ctx context.Context, r placeRow, cells *store.Cells) (*store.Cells, error) {
	err := cells.Update(r.changed, func(after int64, put func(int64, store.Packed)) error {
		return c.each(ctx, "SELECT id, centre FROM vector_cells WHERE place = ? AND changed > ? ORDER BY id", []any{r.id, after}, func(rows *rows) error {
			var id int64
			var centre []byte
			err := rows.Scan(&id, &centre)
			put(id, centre)
			return err
		})
	})
	return cells, err
}

// placement is where the vectors of a message go.
type placement struct {
	where  store.VectorPlace
	chosen int64   // the row of the place for which cells were chosen; 0: it had no index
	cells  []int64 // one for each part
}

// choose finds the cells of packed vectors.
func (p *placement) choose(row placeRow, cells *store.Cells, vectors store.Packed) {
	p.chosen, p.cells = row.id, nil
	for _, part := range vectors.Parts() {
		p.cells = append(p.cells, cells.Nearest(part.Unpack()))
	}
}

// chooseCells finds the places of messages and, where these have an index, the
// cells of their vectors. It is done before a write is queued, because all writes
// share one writer.
func (s *Store) chooseCells(ctx context.Context, c *conn, embedder int64, all []embedding) error {
	users := map[int64]store.Owner{}
	for i := range all {
		v := &all[i]
		if v.entry || v.vector == nil {
			continue
		}
		user, known := users[v.log]
		if !known {
			var err error
			if user, err = c.userOf(ctx, v.log); err != nil {
				return err
			}
			users[v.log] = user
		}
		v.where = store.PlaceOf(user.Tenant, user.Name, v.log, v.vector.Dimensions())
		row, err := c.placeRow(ctx, embedder, v.where)
		if err != nil {
			return err
		}
		if row.id == 0 {
			continue
		}
		cells, err := c.updateCells(ctx, row, s.cells.cache.Of(row.id))
		if err != nil {
			return err
		}
		v.choose(row, cells, v.vector)
	}
	return nil
}

// indexVectors puts the stored vectors of messages into the cells of their
// places, where these have an index, instead of earlier ones. It splits the cells
// that become too large.
func (c *conn) indexVectors(ctx context.Context, embedder int64, all []embedding, maxCell int) error {
	rows, own, grown := map[store.VectorPlace]placeRow{}, map[store.VectorPlace]*store.Cells{}, map[int64]int64{}
	for i := range all {
		v := &all[i]
		if v.entry || v.vector == nil {
			continue
		}
		row, known := rows[v.where]
		if !known {
			var err error
			if row, err = c.placeRow(ctx, embedder, v.where); err != nil {
				return err
			}
			rows[v.where] = row
		}
		if row.id == 0 {
			continue
		}
		if v.chosen != row.id { // the place got its index meanwhile
			if own[v.where] == nil {
				var err error
				if own[v.where], err = c.updateCells(ctx, row, &store.Cells{}); err != nil {
					return err
				}
			}
			v.choose(row, own[v.where], v.vector)
		}
		if err := c.addMembers(ctx, embedder, *v); err != nil {
			return err
		}
		for _, cell := range v.cells {
			grown[cell] = row.id
		}
	}
	for _, cell := range slices.Sorted(maps.Keys(grown)) {
		if err := c.splitLarge(ctx, grown[cell], cell, maxCell); err != nil {
			return err
		}
	}
	return nil
}

// cellBits are how many bits of a member's id number it within its cell. Numbers
// begin anew when a cell is split, long before they are used up.
const cellBits = 30

// cellRange are the ids of the members of a cell: after one and below another.
func cellRange(cell int64) (after, below int64) { return cell << cellBits, (cell + 1) << cellBits }

// addMembers puts the parts of a message's vector into the chosen cells, if the
// vector is stored.
func (c *conn) addMembers(ctx context.Context, embedder int64, v embedding) error {
	if _, err := c.exec(ctx, "DELETE FROM vector_members WHERE log = ? AND seq = ? AND embedder = ?", v.log, v.seq, embedder); err != nil {
		return err
	}
	for i, part := range v.vector.Parts() {
		after, below := cellRange(v.cells[i])
		if _, err := c.exec(ctx, `INSERT INTO vector_members (id, log, seq, embedder, part, at, trace, vector)
SELECT (SELECT coalesce(max(id), ?1) + 1 FROM vector_members WHERE id > ?1 AND id < ?2), log, seq, embedder, ?3, at, trace, ?4
FROM message_vectors WHERE log = ?5 AND seq = ?6 AND embedder = ?7`,
			after, below, i, []byte(part), v.log, v.seq, embedder); err != nil {
			return err
		}
	}
	return nil
}

// splitLarge splits a cell until none of its parts holds too many vectors.
func (c *conn) splitLarge(ctx context.Context, place, cell int64, maxCell int) error {
	after, below := cellRange(cell)
	var size int
	if _, err := c.one(ctx, "SELECT count(*) FROM vector_members WHERE id > ? AND id < ?", []any{after, below}, &size); err != nil || size <= maxCell {
		return err
	}
	var ids []int64
	var vectors [][]float32
	err := c.each(ctx, "SELECT id, vector FROM vector_members WHERE id > ? AND id < ?", []any{after, below}, func(rows *rows) error {
		var id int64
		var vector []byte
		err := rows.Scan(&id, &vector)
		ids, vectors = append(ids, id), append(vectors, store.Packed(vector).Unpack())
		return err
	})
	if err != nil {
		return err
	}
	first, second, inSecond := store.Split(vectors)
	if err := c.moveCentre(ctx, place, cell, first); err != nil {
		return err
	}
	added, err := c.addCell(ctx, place, second)
	if err != nil {
		return err
	}
	next, _ := cellRange(added)
	for i, id := range ids {
		if !inSecond[i] {
			continue
		}
		next++
		if _, err := c.exec(ctx, "UPDATE vector_members SET id = ? WHERE id = ?", next, id); err != nil {
			return err
		}
	}
	c.onWrite("after split")
	if err := c.splitLarge(ctx, place, cell, maxCell); err != nil {
		return err
	}
	return c.splitLarge(ctx, place, added, maxCell)
}

// addCell adds a cell to a place.
func (c *conn) addCell(ctx context.Context, place int64, centre []float32) (id int64, err error) {
	changed, err := c.countChange(ctx, place)
	if err != nil {
		return 0, err
	}
	_, err = c.one(ctx, "INSERT INTO vector_cells (place, changed, centre) VALUES (?, ?, ?) RETURNING id", []any{place, changed, []byte(store.Pack(centre))}, &id)
	return id, err
}

func (c *conn) moveCentre(ctx context.Context, place, cell int64, centre []float32) error {
	changed, err := c.countChange(ctx, place)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, "UPDATE vector_cells SET centre = ?, changed = ? WHERE id = ?", []byte(store.Pack(centre)), changed, cell)
	return err
}

// countChange counts a change of a place's cells, so that others read them again.
func (c *conn) countChange(ctx context.Context, place int64) (changed int64, err error) {
	_, err = c.one(ctx, "UPDATE vector_places SET changed = changed + 1 WHERE id = ? RETURNING changed", []any{place}, &changed)
	return changed, err
}

// removeVectors removes the vectors of changes of a log (the unneeded ones, or the
// whole log), and what the index knows of them: an empty cell keeps no direction.
func (c *conn) removeVectors(ctx context.Context, log int64, which string) error {
	type emptied struct {
		cell, place int64
		dimensions  int
	}
	var cells []emptied
	err := c.each(ctx, `SELECT DISTINCT e.id, e.place, p.dimensions FROM vector_members m
JOIN vector_cells e ON e.id = m.id >> ?2 JOIN vector_places p ON p.id = e.place WHERE m.log = ?1`, []any{log, cellBits}, func(rows *rows) error {
		var e emptied
		err := rows.Scan(&e.cell, &e.place, &e.dimensions)
		cells = append(cells, e)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, "DELETE FROM message_vectors WHERE "+which, log); err != nil {
		return err
	}
	for _, e := range cells {
		after, below := cellRange(e.cell)
		var id int64
		if some, err := c.one(ctx, "SELECT id FROM vector_members WHERE id > ? AND id < ? LIMIT 1", []any{after, below}, &id); err != nil || some {
			if err != nil {
				return err
			}
			continue
		}
		if err := c.moveCentre(ctx, e.place, e.cell, make([]float32, e.dimensions)); err != nil {
			return err
		}
	}
	return nil
}

// removePlaces removes the places of a user, or of those without one, that have
// no session any more.
func (c *conn) removePlaces(ctx context.Context, user store.Owner) error {
	_, err := c.exec(ctx, `DELETE FROM vector_places AS p WHERE tenant = ?1 AND user_id = ?2
AND NOT EXISTS (SELECT 1 FROM sessions s WHERE p.log = 0 AND s.tenant = ?1 AND s.user_id = ?2)
AND NOT EXISTS (SELECT 1 FROM changes c WHERE p.log > 0 AND c.log = p.log)`, user.Tenant, user.Name)
	return err
}
