package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

// Rewrite executes a statement as the writer, behind the store's back.
func (s *Store) Rewrite(ctx context.Context, statement string, args ...any) error {
	return s.write(ctx, &request{ref: store.Ref{}, do: func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, statement, args...)
		return err
	}})
}
