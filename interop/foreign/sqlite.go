package foreign

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"github.com/holdfast-dev/holdfast/session"
)

const sqliteBegin = "SQLite format 3\x00"

// SQLiteHead is how many bytes of a file IsSQLite needs.
const SQLiteHead = int64(len(sqliteBegin))

// IsSQLite reports whether data is the beginning of a SQLite file.
func IsSQLite(data []byte) bool { return bytes.HasPrefix(data, []byte(sqliteBegin)) }

// Database is a copy of a SQLite file of another program, which may have it open:
// the file itself is not touched.
type Database struct {
	*sql.DB
	dir string
}

// OpenSQLite copies a file, with what was not yet moved into it, and opens the
// copy. The caller closes it.
func OpenSQLite(ctx context.Context, file string) (*Database, error) {
	dir, err := os.MkdirTemp("", "holdfast-import-")
	if err != nil {
		return nil, err
	}
	d := &Database{dir: dir}
	copied := filepath.Join(dir, "copy.db")
	if err := copyFile(file, copied); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for _, beside := range []string{"-wal", "-journal"} {
		if err := copyFile(file+beside, copied+beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, d.Close())
		}
	}
	at := url.URL{Scheme: "file", Path: copied}
	if d.DB, err = sql.Open("sqlite", at.String()); err == nil {
		_, err = d.ExecContext(ctx, "PRAGMA query_only = on")
	}
	if err != nil {
		return nil, errors.Join(&session.CorruptError{Reason: err.Error()}, d.Close())
	}
	return d, nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Close removes the copy.
func (d *Database) Close() error {
	var err error
	if d.DB != nil {
		err = d.DB.Close()
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// Has reports whether all of the tables are there.
func (d *Database) Has(ctx context.Context, tables ...string) (bool, error) {
	for _, name := range tables {
		var n int
		if err := d.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", name).Scan(&n); err != nil {
			return false, fmt.Errorf("read the tables: %w", err)
		}
		if n == 0 {
			return false, nil
		}
	}
	return true, nil
}
