package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
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
		return c.eachOf(ctx, "SELECT * FROM "+table+" ORDER BY 1, 2", nil, func(rows *sql.Rows) error {
			names, err := rows.Columns()
			if err != nil {
				return err
			}
			values, into := make([]any, len(names)), make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(&all, "%q\n", values)
			return err
		})
	})
	return all.String(), err
}

// Path is where the store is.
func (s *Store) Path() string { return s.path }
