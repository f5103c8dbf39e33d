package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/session"
)

// pingAfter is how long an idle connection is used without a ping. After a
// longer pause a ping finds out first whether the server was restarted, so that
// a save does not lose its answer.
const pingAfter = time.Second

// closeFor bounds how long closing a connection may take.
const closeFor = 5 * time.Second

func shouldPing(_ context.Context, p pgxpool.ShouldPingParams) bool {
	return p.IdleDuration > pingAfter
}

// once makes a call on a connection of the pool, without a retry. If there was no
// connection the error is an unsentError.
func (s *Store) once(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := s.pool.Acquire(ctx)
	switch {
	case err != nil && s.closed.Load():
		return &unsentError{session.ErrClosed}
	case err != nil:
		return &unsentError{err}
	}
	defer func() {
		broke := conn.Conn().IsClosed() && ctx.Err() == nil
		conn.Release()
		if broke { // the others are probably broken too
			s.pool.Reset()
		}
	}()
	return do(conn.Conn())
}

// closeConn ends a connection, waiting for the server if that is possible.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeFor)
	defer cancel()
	_ = conn.Close(ctx) // it is gone either way
}
