package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// defaultCallTimeout bounds a call where Config.CallTimeout does not.
const defaultCallTimeout = 10 * time.Second

// silentError says that the database did not answer within Config.CallTimeout.
// The connection was dropped. It counts as a lost connection: calls that may be
// made twice are retried, and a save finds out whether it was made.
type silentError struct{ After time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("the database did not answer within %s; its connection was dropped", e.After)
}

// Timeout reports true: a silentError is a net.Error.
func (e *silentError) Timeout() bool { return true }

// Temporary reports true.
func (e *silentError) Temporary() bool { return true }

type unboundedKey struct{}

// unbounded returns a context for calls that may take long without an answer:
// checks, repairs and migrations of a whole database.
func unbounded(ctx context.Context) context.Context {
	return context.WithValue(ctx, unboundedKey{}, true)
}

// bound returns the context of one call, which ends after the call timeout.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Value(unboundedKey{}) != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.config.CallTimeout)
}

// once makes a call on a connection of the pool, without a retry and within the
// call timeout, whatever the caller's context says: a connection that went
// silent must hold up neither this call nor the others that wait for it. If
// there was no connection the error is an unsentError. A connection to a server
// that does not write is replaced, which finds the primary among several hosts.
func (s *Store) once(caller context.Context, do func(context.Context, *pgx.Conn) error) (err error) {
	ctx, cancel := s.bound(caller)
	defer cancel()
	silent := func() bool { return ctx.Err() != nil && caller.Err() == nil }
	conn, err := s.pool.Acquire(ctx)
	switch {
	case err != nil && s.closed.Load():
		return &unsentError{session.ErrClosed}
	case err != nil && silent():
		s.pool.Reset() // the other idle connections are probably silent too
		return &unsentError{&silentError{s.config.CallTimeout}}
	case err != nil:
		return &unsentError{err}
	}
	defer func() {
		if isReadOnly(err) { // of a server that no longer is the primary, or not yet
			closeConn(caller, conn.Conn())
		}
		broke := conn.Conn().IsClosed() && caller.Err() == nil
		conn.Release()
		if broke { // the others are probably broken too
			s.pool.Reset()
		}
	}()
	if err = do(ctx, conn.Conn()); err != nil && silent() {
		return &silentError{s.config.CallTimeout}
	}
	return err
}

// connectTimeout is how long one host may take to connect. With several, a silent
// one must leave time for the others within one call.
func connectTimeout(c *pgconn.Config, call time.Duration) time.Duration {
	limit := min(cmp.Or(c.ConnectTimeout, connectFor), call)
	others := slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port })
	if others {
		limit = min(limit, call/time.Duration(len(c.Fallbacks)+2))
	}
	return limit
}

// closeConn ends a connection, waiting for the server if that is possible.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeFor)
	defer cancel()
	_ = conn.Close(ctx) // it is gone either way
}
