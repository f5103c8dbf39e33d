package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/session"
)

// unsentError is a failure before anything was sent to the database.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// The constraints and conditions of PostgreSQL that mean something here.
const (
	takenOnce    = "taken_once"
	takenOfInbox = "taken_of_inbox"
	calledOnce   = "called_once"

	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	connectionClass      = "08"
	operatorClass        = "57P" // shut down, restarted, not ready yet
	tooManyConnections   = "53300"
	limitClass           = "54" // a value, row or statement is too large
)

// unsent reports that the database has not seen the request.
func unsent(err error) bool {
	var u *unsentError
	return errors.As(err, &u) || pgconn.SafeToRetry(err)
}

// rolledBack reports that the database has undone the request and that it may
// work the next time.
func rolledBack(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && (p.Code == serializationFailure || p.Code == deadlockDetected)
}

// broken reports that the connection was lost with the request under way: it
// may have been carried out. An ERROR of the database is an answer; with FATAL
// it hangs up, and that may happen right after a commit.
func broken(err error) bool {
	if err == nil || unsent(err) {
		return false
	}
	var p *pgconn.PgError
	return !errors.As(err, &p) || p.SeverityUnlocalized != "ERROR"
}

// passing reports a trouble that may be over the next moment.
func passing(err error) bool {
	if errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNewerFormat) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return rolledBack(err) || p.Code == tooManyConnections || strings.HasPrefix(p.Code, operatorClass) || strings.HasPrefix(p.Code, connectionClass)
	}
	return unsent(err) || isConnection(err)
}

// repeatable reports a passing trouble with a request that certainly was not
// carried out.
func repeatable(err error) bool { return passing(err) && (unsent(err) || rolledBack(err)) }

// isConnection tells trouble with a connection from a mistake in this program,
// such as a value that does not fit, which the driver finds itself.
func isConnection(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.Timeout(err) || lostConnection(err)
}

// translated is an error of the driver as a caller sees it. What a caller may
// match is an error of package session or of its context; the driver's text
// is kept and its types are not.
func translated(ctx context.Context, err error) error {
	var p *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p) && (p.ConstraintName == takenOnce || p.ConstraintName == takenOfInbox):
		return &session.InvalidError{Field: "inbox", Reason: "an item is gone or taken"}
	case p != nil && strings.HasPrefix(p.Code, limitClass):
		return fmt.Errorf("postgres: %s: %w", p.Message, session.ErrTooLarge)
	case domain(err):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("postgres: %v", err) //nolint:errorlint // the driver's errors are not for callers
}

// domain reports an error that was made here and not by the driver.
func domain(err error) bool {
	for _, known := range []error{
		session.ErrNotFound, session.ErrConflict, session.ErrInvalid, session.ErrBusy, session.ErrFenced, session.ErrClosed,
		session.ErrCorrupt, session.ErrNewerFormat, session.ErrUnknownOutcome, session.ErrTooLarge,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
