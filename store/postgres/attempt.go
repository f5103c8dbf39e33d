package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// How long a call goes on trying while the database is away, and how long it
// waits between two tries.
const (
	defaultPatience = 3 * time.Second

	firstWait = 5 * time.Millisecond
	longWait  = 200 * time.Millisecond
)

// again makes a call that may be made twice, and makes it anew as long as
// trouble that passes is in the way.
func (s *Store) again(ctx context.Context, do func(*pgx.Conn) error) error {
	return s.insist(ctx, passing, func() error { return s.once(ctx, do) })
}

// insist tries until it works, fails for a reason that is not worth another
// try, or patience ends.
func (s *Store) insist(ctx context.Context, worth func(error) bool, try func() error) error {
	began, wait := time.Now(), firstWait
	for {
		err := try()
		if err == nil || !worth(err) || time.Since(began) > s.patience {
			return translated(ctx, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-s.closing:
			timer.Stop()
			return translated(ctx, err)
		}
		wait = min(2*wait, longWait)
	}
}

// consistent makes several reads that see the database at one moment.
func (s *Store) consistent(ctx context.Context, do func(pgx.Tx) error) error {
	return s.again(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
	})
}

func lostConnection(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}
