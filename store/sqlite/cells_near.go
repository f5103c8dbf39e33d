package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// cellsAtOnce is how many cells are read in one query.
const cellsAtOnce = 16

// compareCells compares the vectors of the cells nearest to the query: of some
// logs, or of all in the place, until enough were compared. Vectors that no
// searched session shows do not count.
func (n *vectorSearch) compareCells(ctx context.Context, c *conn, row placeRow, logs []int64) error {
	cells, err := c.updateCells(ctx, row, n.cells.cache.Of(row.id))
	if err != nil {
		return err
	}
	enough := cells.Enough()
	order := cells.Order(n.query.Vector, enough/8)
	some, at, compared := map[place]near{}, 0, 0
	var shown []store.Passage
	for share := 1.0; float64(compared)*share < float64(enough); {
		if at == len(order) { // those that were ordered hold too few
			if at >= cells.Len() {
				break
			}
			order = append(order, without(cells.Order(n.query.Vector, cells.Len()), order)...)
		}
		for at < len(order) && float64(compared)*share < float64(enough) {
			next := order[at:min(at+cellsAtOnce, len(order))]
			at += len(next)
			read, err := n.readCells(ctx, c, next, logs, some)
			if err != nil {
				return err
			}
			compared += read
		}
		if shown, share, err = n.shown(ctx, some); err != nil {
			return err
		}
	}
	for _, p := range shown {
		n.best.Add(p)
	}
	return nil
}

// without returns the ids that are not among others.
func without(ids, others []int64) []int64 {
	known := make(map[int64]bool, len(others))
	for _, id := range others {
		known[id] = true
	}
	return slices.DeleteFunc(ids, func(id int64) bool { return known[id] })
}

// readCells compares the vectors of cells and collects the near ones, each
// message once. It returns how many it compared.
func (n *vectorSearch) readCells(ctx context.Context, c *conn, cells, logs []int64, some map[place]near) (compared int, err error) {
	list, err := json.Marshal(cells)
	if err != nil {
		return 0, err
	}
	err = c.each(ctx, `SELECT m.log, m.seq, m.at, m.part, m.vector FROM json_each(?1) j
CROSS JOIN vector_members m ON m.id > (j.value << ?2) AND m.id < ((j.value + 1) << ?2) WHERE m.trace <= ?3`,
		[]any{string(list), cellBits, n.query.Trace}, func(rows *rows) error {
			var m near
			var vector sql.RawBytes
			if err := rows.Scan(&m.log, &m.seq, &m.at, &m.part, &vector); err != nil {
				return err
			}
			if logs != nil && !slices.Contains(logs, m.log) {
				return nil
			}
			compared++
			score, _, ok := store.Packed(vector).Score(n.query.Vector)
			if m.score = score; !ok || !n.best.Admits(score) {
				return nil
			}
			if known, ok := some[m.place]; !ok || score > known.score || score == known.score && m.part < known.part {
				some[m.place] = m
			}
			return nil
		})
	return compared, err
}

// shown returns those messages that a searched session shows, the nearest first,
// as far as they can be among the best, and the share of those it looked at that
// are shown.
func (n *vectorSearch) shown(ctx context.Context, some map[place]near) (shown []store.Passage, share float64, err error) {
	list := slices.SortedFunc(maps.Values(some), func(a, b near) int { return cmp.Compare(b.score, a.score) })
	looked := 0
	for _, m := range list {
		if len(shown) >= n.query.Limit && m.score < shown[n.query.Limit-1].Score {
			break
		}
		looked++
		id, err := n.view.holder(ctx, m.place)
		if err != nil {
			return nil, 0, err
		}
		if id != "" {
			shown = append(shown, store.Passage{SessionID: id, Seq: m.seq, Score: m.score, Part: m.part, At: instant(m.at)})
		}
	}
	if looked == 0 {
		return nil, 1, nil
	}
	return shown, float64(len(shown)) / float64(looked), nil
}
