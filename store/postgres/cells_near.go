package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// compareTranscripts compares the vectors of the user's transcripts and of the
// searched session's: by the index of their place, or one by one.
func (n *vectorSearch) compareTranscripts(ctx context.Context) error {
	byPlace := map[store.VectorPlace][]int64{}
	changes := map[store.VectorPlace]int64{}
	for log, stretches := range n.stretches {
		p := store.PlaceOf(n.tenant, n.sessions[stretches[0].sid].user, log, len(n.near.Vector))
		byPlace[p] = append(byPlace[p], log)
		for _, s := range stretches {
			changes[p] += s.upto - s.after
		}
	}
	for place, logs := range byPlace {
		row, err := readPlace(ctx, n.tx, n.eid, place)
		if err != nil {
			return err
		}
		if row.ready {
			cells, err := updateCells(ctx, n.tx, row, n.cells.cache.Of(row.pid))
			if err != nil {
				return err
			}
			if place.User == "" || place.User == n.query.User || cells.Worth(int(changes[place])) {
				if err := n.compareCells(ctx, cells); err != nil {
					return err
				}
				continue
			}
		}
		compared, err := n.compareMessages(ctx, logs)
		if err != nil {
			return err
		}
		if compared > n.cells.above {
			n.cells.want(embedderPlace{n.eid, place})
		}
	}
	return nil
}

// cellsAtOnce is how many cells are read in one round trip.
const cellsAtOnce = 32

// place is where a message lies.
type place struct{ log, seq int64 }

// compareCells compares the vectors of the cells nearest to the query until
// enough were compared. Vectors that no searched session shows do not count.
func (n *vectorSearch) compareCells(ctx context.Context, cells *store.Cells) error {
	enough := cells.Enough()
	order := cells.Order(n.near.Vector, enough/8)
	some, at, compared := map[place]scored{}, 0, 0
	var held []scored
	for share := 1.0; float64(compared)*share < float64(enough); {
		if at == len(order) { // those that were ordered hold too few
			if at >= cells.Len() {
				break
			}
			known := make(map[int64]bool, at)
			for _, id := range order {
				known[id] = true
			}
			order = append(order, slices.DeleteFunc(cells.Order(n.near.Vector, cells.Len()), func(id int64) bool { return known[id] })...)
		}
		for at < len(order) && float64(compared)*share < float64(enough) {
			next := order[at:min(at+cellsAtOnce, len(order))]
			at += len(next)
			read, err := n.readCells(ctx, next, some)
			if err != nil {
				return err
			}
			compared += read
		}
		var err error
		if held, share, err = n.heldOf(ctx, some); err != nil {
			return err
		}
	}
	return n.addHeld(ctx, held)
}

// readCells compares the vectors of cells and collects the near ones, each
// message once. It returns how many it compared.
func (n *vectorSearch) readCells(ctx context.Context, cells []int64, some map[place]scored) (compared int, err error) {
	rows, err := n.tx.Query(ctx, `SELECT log, seq, at, part, vector FROM vector_members WHERE cell = ANY ($1::bigint[]) AND ($2::boolean OR NOT trace)`, cells, n.query.Trace)
	if err != nil {
		return 0, err
	}
	var c scored
	var vector pgtype.DriverBytes // good until the next row
	_, err = pgx.ForEachRow(rows, []any{&c.log, &c.seq, &c.at, &c.part, &vector}, func() error {
		if n.stretches[c.log] == nil {
			return nil
		}
		compared++
		score, _, ok := store.Packed(vector).Score(n.near.Vector)
		if c.score = score; !ok || !n.best.Admits(score) || session.Holds(n.discards[c.log], c.seq) {
			return nil
		}
		at := place{c.log, c.seq}
		if known, ok := some[at]; !ok || score > known.score || score == known.score && c.part < known.part {
			some[at] = c
		}
		return nil
	})
	return compared, err
}

// heldOf returns those messages that a transcript holds, the nearest first, as
// far as they can be among the best, and the share of those it looked at that are
// held.
func (n *vectorSearch) heldOf(ctx context.Context, some map[place]scored) (held []scored, share float64, err error) {
	list := slices.SortedFunc(maps.Values(some), func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	looked := 0
	for part := range slices.Chunk(list, max(64, n.query.Limit)) {
		candidates := make([]candidate, len(part))
		for i, c := range part {
			candidates[i] = candidate{log: c.log, seq: c.seq}
		}
		if err := n.readSpans(ctx, candidates); err != nil {
			return nil, 0, err
		}
		for i, c := range part {
			if len(held) >= n.query.Limit && c.score < held[n.query.Limit-1].score {
				return held, float64(len(held)) / float64(looked), nil
			}
			looked++
			if n.holder(candidates[i]) != "" {
				held = append(held, c)
			}
		}
	}
	if looked == 0 {
		return nil, 1, nil
	}
	return held, float64(len(held)) / float64(looked), nil
}
