package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/session"
)

// pingAfter is how long an idle connection is believed to be alive. An older
// one is asked first, so that a save after a pause does not find out about a
// restart of the server by losing its answer.
const pingAfter = time.Second

// closeFor is how long the end of a connection may take.
const closeFor = 5 * time.Second

func shouldPing(_ context.Context, p pgxpool.ShouldPingParams) bool {
	return p.IdleDuration > pingAfter
}

// once makes a call on a connection of the pool. Where there was none, nothing
// was sent.
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

// discard ends a connection, politely if that is possible.
func discard(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeFor)
	defer cancel()
	_ = conn.Close(ctx) // it is gone either way
}
