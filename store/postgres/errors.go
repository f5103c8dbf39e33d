package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/session"
)

// unsentError is a failure before anything was sent to the database.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// The constraints and error codes of PostgreSQL that this package knows.
const (
	takenOnce    = "taken_once"
	takenOfInbox = "taken_of_inbox"
	calledOnce   = "called_once"

	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnlyTransaction  = "25006"
	connectionClass      = "08"
	operatorClass        = "57P" // shut down, restarted, not ready yet
	tooManyConnections   = "53300"
	limitClass           = "54" // a value, row or statement is too large
)

// unsent reports that the request never reached the database.
func unsent(err error) bool {
	var u *unsentError
	return errors.As(err, &u) || pgconn.SafeToRetry(err)
}

// rolledBack reports that the database has undone the request and that a second
// try may succeed.
func rolledBack(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && (p.Code == serializationFailure || p.Code == deadlockDetected || p.Code == readOnlyTransaction)
}

// isReadOnly reports a server that refuses to write: a standby, or a primary that
// is being replaced.
func isReadOnly(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && p.Code == readOnlyTransaction
}

// answerLost reports that the connection was lost while the request ran, so
// that it may have been carried out. An ERROR of the database is an answer; with
// FATAL it closes the connection, which may happen right after a commit.
func answerLost(err error) bool {
	if err == nil || unsent(err) {
		return false
	}
	var p *pgconn.PgError
	return !errors.As(err, &p) || p.SeverityUnlocalized != "ERROR"
}

// transient reports an error that may be gone at the next try.
func transient(err error) bool {
	if errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNewerFormat) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return rolledBack(err) || p.Code == tooManyConnections || strings.HasPrefix(p.Code, operatorClass) || strings.HasPrefix(p.Code, connectionClass)
	}
	return unsent(err) || isConnection(err)
}

// safeToRepeat reports a transient error of a request that certainly was not
// carried out.
func safeToRepeat(err error) bool { return transient(err) && (unsent(err) || rolledBack(err)) }

// isConnection reports an error of a connection, and not a mistake of this
// program that the driver finds, such as a value that does not fit.
func isConnection(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.Timeout(err) || isNetwork(err)
}

// translate turns an error of the driver into one for callers. They can match
// errors of package session and of their context; of other errors only the
// text is kept.
func translate(ctx context.Context, err error) error {
	var p *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p) && (p.ConstraintName == takenOnce || p.ConstraintName == takenOfInbox):
		return &session.InvalidError{Field: "inbox", Reason: "an item is gone or taken"}
	case p != nil && strings.HasPrefix(p.Code, limitClass):
		return fmt.Errorf("postgres: %s: %w", p.Message, session.ErrTooLarge)
	case isOurs(err):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("postgres: %s", eachLineOnce(err.Error())) // the driver's errors are not for callers
}

// eachLineOnce drops lines that are there already: a connection that is tried with
// and without TLS fails twice for the same reason.
func eachLineOnce(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// isOurs reports an error of package session, which the driver never makes.
func isOurs(err error) bool {
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
