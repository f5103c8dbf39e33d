package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/session"
)

// translate turns an error into one for callers: errors of package session and
// of the context as they are, errors of SQLite with a text that names the cause.
// Conflicts are found by reading, so no error of the driver means one.
func (s *Store) translate(ctx context.Context, err error) error {
	var raw *driver.Error
	switch {
	case err == nil, errors.Is(err, session.ErrUnknownOutcome), errors.Is(err, session.ErrBusy):
		return err
	case errors.Is(err, errClosing):
		return s.closedError()
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || isCode(err, codes.SQLITE_INTERRUPT)):
		return ctx.Err()
	case errors.As(err, &raw):
		if code := raw.Code() & 0xff; code == codes.SQLITE_READONLY || code == codes.SQLITE_PERM {
			return readOnly(s.path, "the file or its directory cannot be written to; make both writable, or copy the sessions to another store "+
				"with: holdfast sessions copy")
		}
		return fmt.Errorf("sqlite store %s: %w", s.path, explain(err, raw.Code()))
	}
	return err
}

func (s *Store) closedError() error {
	return fmt.Errorf("sqlite store %s: %w", s.path, session.ErrClosed)
}

// explain adds what an error of SQLite means for the owner of the file.
func explain(err error, code int) error {
	switch code & 0xff {
	case codes.SQLITE_NOTADB:
		return &session.InvalidError{Field: "path", Reason: "the file is not a SQLite database"}
	case codes.SQLITE_CORRUPT:
		return fmt.Errorf("the database file is %w: %w", session.ErrCorrupt, err)
	case codes.SQLITE_CANTOPEN:
		return fmt.Errorf("the database cannot be opened; see that this user may read and write it, and its folder: %w", err)
	case codes.SQLITE_TOOBIG:
		return fmt.Errorf("a value is more than SQLite holds: %w: %w", session.ErrTooLarge, err)
	case codes.SQLITE_FULL:
		return fmt.Errorf("the disk is full: %w", err)
	case codes.SQLITE_BUSY:
		return fmt.Errorf("%w: another process has locked the database: %w", session.ErrBusy, err)
	}
	return err
}

// isCode reports an error of SQLite with this code, whatever its details.
func isCode(err error, code int) bool {
	var raw *driver.Error
	return errors.As(err, &raw) && raw.Code()&0xff == code
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
