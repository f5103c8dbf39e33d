package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// placeRow is a row of the places that have an index of vectors.
type placeRow struct {
	pid     int64 // 0: the place has no index
	ready   bool
	changed int64
}

func readPlace(ctx context.Context, tx pgx.Tx, eid int64, p store.VectorPlace) (r placeRow, err error) {
	err = tx.QueryRow(ctx, `SELECT pid, ready, changed FROM vector_places WHERE eid = $1 AND tenant = $2 AND user_id = $3 AND log = $4 AND dimensions = $5`,
		eid, p.Tenant, p.User, p.Log, p.Dimensions).Scan(&r.pid, &r.ready, &r.changed)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return r, err
}

// updateCells brings cells up to the state that the transaction sees. It must not
// have changed cells itself: what it wrote may never be committed.
func updateCells(ctx context.Context, tx pgx.Tx, r placeRow, cells *store.Cells) (*store.Cells, error) {
	err := cells.Update(r.changed, func(after int64, put func(int64, store.Packed)) error {
		rows, err := tx.Query(ctx, `SELECT cell, centre FROM vector_cells WHERE pid = $1 AND changed > $2 ORDER BY cell`, r.pid, after)
		if err != nil {
			return err
		}
		var cell int64
		var centre []byte
		_, err = pgx.ForEachRow(rows, []any{&cell, &centre}, func() error {
			put(cell, slices.Clone(centre))
			return nil
		})
		return err
	})
	return cells, err
}

// lockPlace locks a place until the transaction ends. Locks of logs are taken
// before it.
func lockPlace(ctx context.Context, tx pgx.Tx, p store.VectorPlace) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/vectors/' || $1, 0))`, fmt.Sprintf("%s/%s/%d", p.Tenant, p.User, p.Log))
	return err
}

// placesOf finds the places of logs, without dimensions. If a session was purged,
// its forks tell whose it was.
func placesOf(ctx context.Context, tx pgx.Tx, logs []int64) (map[int64]store.VectorPlace, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT ON (g.log) g.log, l.tenant, coalesce(l.user_id, '') FROM unnest($1::bigint[]) AS g (log)
		JOIN lineage n ON n.log = g.log JOIN listing l ON l.sid = n.sid`, logs)
	if err != nil {
		return nil, err
	}
	places := map[int64]store.VectorPlace{}
	var log int64
	var tenant, user string
	_, err = pgx.ForEachRow(rows, []any{&log, &tenant, &user}, func() error {
		places[log] = store.PlaceOf(tenant, user, log, 0)
		return nil
	})
	return places, err
}

// indexVectors puts the stored vectors of messages into the cells of their
// places, where these have an index, instead of earlier ones. The locks of their
// logs, or of their place, are held.
func (s *Store) indexVectors(ctx context.Context, tx pgx.Tx, eid int64, r vectorRows) error {
	owners, err := placesOf(ctx, tx, r.a)
	if err != nil {
		return err
	}
	byPlace := map[store.VectorPlace]*vectorRows{}
	for i, log := range r.a {
		place, known := owners[log]
		if !known || r.vectors[i] == nil {
			continue
		}
		place.Dimensions = store.Packed(r.vectors[i]).Dimensions()
		if byPlace[place] == nil {
			byPlace[place] = &vectorRows{}
		}
		some := byPlace[place]
		some.a, some.b, some.vectors = append(some.a, log), append(some.b, r.b[i]), append(some.vectors, r.vectors[i])
	}
	places := slices.SortedFunc(maps.Keys(byPlace), func(a, b store.VectorPlace) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.User, b.User), cmp.Compare(a.Log, b.Log), cmp.Compare(a.Dimensions, b.Dimensions))
	})
	for _, place := range places { // the locks first, always in this order
		if err := lockPlace(ctx, tx, place); err != nil {
			return err
		}
	}
	for _, place := range places {
		row, err := readPlace(ctx, tx, eid, place)
		if err != nil {
			return err
		}
		if row.pid == 0 {
			continue
		}
		cells, err := updateCells(ctx, tx, row, s.cells.cache.Of(row.pid))
		if err != nil {
			return err
		}
		if err := s.addMembers(ctx, tx, eid, row, cells, *byPlace[place]); err != nil {
			return err
		}
	}
	return nil
}

// addMembers puts vectors of one place into its cells and splits those that
// become too large.
func (s *Store) addMembers(ctx context.Context, tx pgx.Tx, eid int64, row placeRow, cells *store.Cells, r vectorRows) error {
	if _, err := tx.Exec(ctx, `DELETE FROM vector_members m USING unnest($1::bigint[], $2::bigint[]) AS g (log, seq) WHERE m.log = g.log AND m.seq = g.seq AND m.eid = $3`,
		r.a, r.b, eid); err != nil {
		return err
	}
	var logs, seqs, chosen []int64
	var parts []int32
	var vectors [][]byte
	for i, packed := range r.vectors {
		for part, vector := range store.Packed(packed).Parts() {
			logs, seqs, parts, vectors = append(logs, r.a[i]), append(seqs, r.b[i]), append(parts, int32(part)), append(vectors, vector)
			chosen = append(chosen, cells.Nearest(vector.Unpack()))
		}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO vector_members (log, seq, eid, part, cell, at, trace, vector)
		SELECT v.log, v.seq, v.eid, g.part, g.cell, v.at, v.trace, g.vector
		FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $5::bytea[]) AS g (log, seq, part, cell, vector)
			JOIN message_vectors v ON v.log = g.log AND v.seq = g.seq AND v.eid = $6
		ORDER BY v.log, v.seq, g.part FOR KEY SHARE OF v`, logs, seqs, parts, chosen, vectors, eid); err != nil {
		return err
	}
	for grown := slices.Compact(slices.Sorted(slices.Values(chosen))); len(grown) > 0; {
		rows, err := tx.Query(ctx, `SELECT cell FROM vector_members WHERE cell = ANY ($1) GROUP BY cell HAVING count(*) > $2 ORDER BY cell`, grown, s.cells.maxCell)
		if err != nil {
			return err
		}
		large, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		grown = nil
		for _, cell := range large {
			added, err := splitCell(ctx, tx, row.pid, cell)
			if err != nil {
				return err
			}
			grown = append(grown, cell, added)
		}
	}
	return nil
}

// splitCell moves about half of the vectors of a cell to a new one.
func splitCell(ctx context.Context, tx pgx.Tx, pid, cell int64) (added int64, err error) {
	rows, err := tx.Query(ctx, `SELECT log, seq, eid, part, vector FROM vector_members WHERE cell = $1 ORDER BY log, seq, part`, cell)
	if err != nil {
		return 0, err
	}
	var logs, seqs, eids []int64
	var parts []int32
	var vectors [][]float32
	var log, seq, eid int64
	var part int32
	var vector []byte
	if _, err := pgx.ForEachRow(rows, []any{&log, &seq, &eid, &part, &vector}, func() error {
		logs, seqs, eids, parts = append(logs, log), append(seqs, seq), append(eids, eid), append(parts, part)
		vectors = append(vectors, store.Packed(vector).Unpack())
		return nil
	}); err != nil {
		return 0, err
	}
	first, second, inSecond := store.Split(vectors)
	if err := moveCentre(ctx, tx, pid, cell, first); err != nil {
		return 0, err
	}
	if added, err = addCell(ctx, tx, pid, second); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `UPDATE vector_members m SET cell = $1 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::boolean[]) AS g (log, seq, eid, part, moves)
		WHERE m.log = g.log AND m.seq = g.seq AND m.eid = g.eid AND m.part = g.part AND g.moves`, added, logs, seqs, eids, parts, inSecond)
	return added, err
}

// addCell adds a cell to a place.
func addCell(ctx context.Context, tx pgx.Tx, pid int64, centre []float32) (cell int64, err error) {
	err = tx.QueryRow(ctx, `WITH counted AS (UPDATE vector_places SET changed = changed + 1 WHERE pid = $1 RETURNING changed)
		INSERT INTO vector_cells (pid, changed, centre) SELECT $1, changed, $2 FROM counted RETURNING cell`, pid, []byte(store.Pack(centre))).Scan(&cell)
	return cell, err
}

func moveCentre(ctx context.Context, tx pgx.Tx, pid, cell int64, centre []float32) error {
	_, err := tx.Exec(ctx, `WITH counted AS (UPDATE vector_places SET changed = changed + 1 WHERE pid = $1 RETURNING changed)
		UPDATE vector_cells c SET centre = $3, changed = counted.changed FROM counted WHERE c.cell = $2`, pid, cell, []byte(store.Pack(centre)))
	return err
}

// cellsOf are the cells that hold vectors of logs.
func cellsOf(ctx context.Context, tx pgx.Tx, logs []int64) ([]int64, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT cell FROM vector_members WHERE log = ANY ($1)`, logs)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// clearCells takes the direction from those cells that have no vector any more,
// and removes the index of a user, or of logs without one, that have no session.
func clearCells(ctx context.Context, tx pgx.Tx, cells []int64, tenant, user string) error {
	rows, err := tx.Query(ctx, `SELECT c.cell, c.pid, p.dimensions FROM vector_cells c JOIN vector_places p ON p.pid = c.pid
		WHERE c.cell = ANY ($1) AND NOT EXISTS (SELECT 1 FROM vector_members m WHERE m.cell = c.cell) ORDER BY c.cell`, cells)
	if err != nil {
		return err
	}
	type emptied struct {
		Cell, PID  int64
		Dimensions int
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[emptied])
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := moveCentre(ctx, tx, e.PID, e.Cell, make([]float32, e.Dimensions)); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `DELETE FROM vector_places p WHERE tenant = $1 AND user_id = $2
		AND NOT EXISTS (SELECT 1 FROM listing l WHERE p.log = 0 AND l.tenant = $1 AND l.user_id = $2)
		AND NOT EXISTS (SELECT 1 FROM lineage n WHERE p.log > 0 AND n.log = p.log)`, tenant, user)
	return err
}
