package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// How long a call retries while the database cannot be reached, and how long
// it waits between two tries.
const (
	defaultRetryFor = 3 * time.Second

	firstWait = 5 * time.Millisecond
	lastWait  = 200 * time.Millisecond
)

// retry makes a call that may safely be made twice, again after every transient
// error.
func (s *Store) retry(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return s.retryWhile(ctx, transient, func() error { return s.once(ctx, do) })
}

// retryWhile tries until it works, until an error is not worth another try, or
// until retryFor is over.
func (s *Store) retryWhile(ctx context.Context, worth func(error) bool, try func() error) error {
	began, wait := time.Now(), firstWait
	for {
		err := try()
		if err == nil || !worth(err) || time.Since(began) > s.retryFor {
			return translate(ctx, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-s.closing:
			timer.Stop()
			return translate(ctx, err)
		}
		wait = min(2*wait, lastWait)
	}
}

// consistent makes several reads that all see the same state of the database.
func (s *Store) consistent(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return do(ctx, tx) })
	})
}

// isNetwork reports an error of the connection itself.
func isNetwork(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}
