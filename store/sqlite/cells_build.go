package sqlite

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// embedderPlace is a place of one embedder.
type embedderPlace struct {
	embedder int64
	store.VectorPlace
}

// cellBuilder makes the index of vectors of places in which a search had to
// compare many. It works in the background, in small parts that are queued like
// other writes. A place that is lost when the process ends is found again by the
// next search there.
type cellBuilder struct {
	cache   store.CellCache
	above   int // how many vectors a search compares before their place gets an index
	maxCell int

	mu     sync.Mutex
	places map[embedderPlace]bool // guarded by mu
	wake   chan struct{}          // holds one signal

	stop    context.CancelFunc
	stopped chan struct{}
}

// newCellBuilder starts the builder of a store. It ends when it is closed.
func newCellBuilder(ctx context.Context, s *Store) *cellBuilder {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &cellBuilder{
		above: store.IndexAbove, maxCell: store.MaxCell,
		places: map[embedderPlace]bool{}, wake: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{}),
	}
	go b.run(ctx, s)
	return b
}

// want asks for the index of a place.
func (b *cellBuilder) want(p embedderPlace) {
	b.mu.Lock()
	b.places[p] = true
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *cellBuilder) run(ctx context.Context, s *Store) {
	defer close(b.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		b.mu.Lock()
		places := slices.Collect(maps.Keys(b.places))
		clear(b.places)
		b.mu.Unlock()
		for _, p := range places {
			// An error ends it without a report: a search is right without the index,
			// and the next one asks again.
			if err := s.buildCells(ctx, p); err != nil && ctx.Err() != nil {
				return
			}
		}
	}
}

func (b *cellBuilder) close() {
	b.stop()
	<-b.stopped
}

// buildCells makes the index of a place. As soon as the place has a row, whoever
// stores a vector puts it into a cell; what was stored before is added here.
func (s *Store) buildCells(ctx context.Context, p embedderPlace) error {
	ready := false
	if err := s.write(ctx, &request{keepsCache: true, do: func(ctx context.Context, c *conn) error {
		row, err := c.placeRow(ctx, p.embedder, p.VectorPlace)
		if ready = row.ready; err != nil || row.id > 0 {
			return err
		}
		return c.addPlace(ctx, p)
	}}); err != nil || ready {
		return err
	}
	for after := (place{}); ; {
		var part []embedding
		err := s.read(ctx, func(ctx context.Context, c *conn) (err error) {
			if part, err = c.withoutCell(ctx, p, after); err != nil {
				return err
			}
			return s.chooseCells(ctx, c, p.embedder, part)
		})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			break
		}
		after = part[len(part)-1].place
		err = s.write(ctx, &request{keepsCache: true, do: func(ctx context.Context, c *conn) error {
			return c.indexVectors(ctx, p.embedder, part, s.cells.maxCell)
		}})
		if err != nil {
			return err
		}
	}
	return s.write(ctx, &request{keepsCache: true, do: func(ctx context.Context, c *conn) error {
		row, err := c.placeRow(ctx, p.embedder, p.VectorPlace)
		if err == nil {
			_, err = c.exec(ctx, "UPDATE vector_places SET ready = 1 WHERE id = ?", row.id)
		}
		c.onWrite("after cells")
		return err
	}})
}

// addPlace gives a place its row and its first cell, which is in no direction.
func (c *conn) addPlace(ctx context.Context, p embedderPlace) error {
	var id int64
	if _, err := c.one(ctx, "INSERT INTO vector_places (embedder, tenant, user_id, log, dimensions) VALUES (?, ?, ?, ?, ?) RETURNING id",
		[]any{p.embedder, p.Tenant, p.User, p.Log, p.Dimensions}, &id); err != nil {
		return err
	}
	_, err := c.addCell(ctx, id, make([]float32, p.Dimensions))
	return err
}

// partVectors is about how many vectors are put into cells in one transaction.
const partVectors = 256

// logsOf returns the logs of a place from one on, in order, those of deleted
// sessions too.
func (c *conn) logsOf(ctx context.Context, p store.VectorPlace, from int64) ([]int64, error) {
	if p.User == "" {
		return []int64{p.Log}, nil
	}
	var logs []int64
	err := c.each(ctx, `WITH mine AS (SELECT log FROM sessions WHERE tenant = ?1 AND user_id = ?2),
every AS (SELECT log FROM mine UNION SELECT ancestor FROM lineage JOIN mine USING (log)) SELECT log FROM every WHERE log >= ?3 ORDER BY log`,
		[]any{p.Tenant, p.User, from}, func(rows *rows) error {
			var log int64
			err := rows.Scan(&log)
			logs = append(logs, log)
			return err
		})
	return logs, err
}

// withoutCell reads the next vectors of a place that are in no cell.
func (c *conn) withoutCell(ctx context.Context, p embedderPlace, after place) ([]embedding, error) {
	logs, err := c.logsOf(ctx, p.VectorPlace, after.log)
	if err != nil {
		return nil, err
	}
	var part []embedding
	for _, log := range logs {
		from := int64(0)
		if log == after.log {
			from = after.seq
		}
		err := c.each(ctx, `SELECT seq, vector FROM message_vectors v WHERE log = ?1 AND seq > ?2 AND embedder = ?3 AND vector IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM vector_members m WHERE m.log = v.log AND m.seq = v.seq AND m.embedder = v.embedder) ORDER BY seq`,
			[]any{log, from, p.embedder}, func(rows *rows) error {
				v := embedding{place: place{log: log}}
				var vector []byte
				if err := rows.Scan(&v.seq, &vector); err != nil {
					return err
				}
				if v.vector = vector; v.vector.Dimensions() != p.Dimensions {
					return nil
				}
				if part = append(part, v); len(part) >= partVectors {
					return errStop
				}
				return nil
			})
		if err != nil && !errors.Is(err, errStop) {
			return nil, err
		}
		if len(part) >= partVectors {
			break
		}
	}
	return part, nil
}
