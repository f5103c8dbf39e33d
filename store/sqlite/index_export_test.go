package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// Index brings at most so many changes into the index of words.
func (s *Store) Index(ctx context.Context, most int) error {
	_, err := s.indexPart(ctx, 1, most)
	return s.translate(ctx, err)
}

// Unindexed is how many changes the index of words does not have yet.
func (s *Store) Unindexed(ctx context.Context) (n int64, err error) {
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		n, err = c.unindexed(ctx)
		return err
	})
	return n, err
}

// Dump is every value of a table, in the order of its rows.
func (s *Store) Dump(ctx context.Context, table string) (string, error) {
	var all strings.Builder
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, "SELECT * FROM "+table+" ORDER BY 1, 2", nil, func(rows *rows) error {
			_, err := fmt.Fprintf(&all, "%q\n", rows.values)
			return err
		})
	})
	return all.String(), err
}

// Path is where the store is.
func (s *Store) Path() string { return s.path }

// TinyCells makes even small places worth an index, with cells of at most three
// vectors. Nothing may use the store yet.
func (s *Store) TinyCells() { s.cells.above, s.cells.maxCell = 0, 3 }

// BuildCells makes the index of vectors of every place there is.
func (s *Store) BuildCells(ctx context.Context) error {
	var places []embedderPlace
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		var found []embedding
		embedders := []int64{}
		err := c.each(ctx, "SELECT log, seq, embedder, vector FROM message_vectors WHERE vector IS NOT NULL", nil, func(rows *rows) error {
			var v embedding
			var embedder int64
			var vector []byte
			err := rows.Scan(&v.log, &v.seq, &embedder, &vector)
			v.vector = vector
			found, embedders = append(found, v), append(embedders, embedder)
			return err
		})
		if err != nil {
			return err
		}
		for i, v := range found {
			user, err := c.userOf(ctx, v.log)
			if err != nil {
				return err
			}
			p := embedderPlace{embedders[i], store.PlaceOf(user.Tenant, user.Name, v.log, v.vector.Dimensions())}
			if !slices.Contains(places, p) {
				places = append(places, p)
			}
		}
		return nil
	})
	for _, p := range places {
		if err == nil {
			err = s.buildCells(ctx, p)
		}
	}
	return err
}
