package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver, for the floor

	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// sqliteEngine keeps its stores in folders below dir.
func sqliteEngine(dir string) engine {
	return engine{
		name: "SQLite",
		open: func(ctx context.Context, s setting) (*openedStore, error) { return openSQLite(ctx, dir, s) },
		floor: func(ctx context.Context, clients int) (floor, error) {
			if clients != 1 {
				return nil, fmt.Errorf("SQLite has one writer, not %d", clients)
			}
			return newSQLiteFloor(ctx, dir)
		},
		commits:    func(point string) bool { return point == "before commit" },
		rateTarget: atLeast(2),
		chapters:   allMeasurements(measurement{"a disk 1 ms slower", slowDisk}),
	}
}

const databaseFile = "sessions.db"

func openSQLite(ctx context.Context, parent string, s setting) (*openedStore, error) {
	dir, err := os.MkdirTemp(parent, "sqlite")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, databaseFile)
	st, err := sqlite.Open(ctx, file, sqlite.Config{OnWrite: s.onWrite})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &openedStore{durable: st, file: file}
	p.bytes = func(context.Context) (int64, error) { // the log goes into the file when the last user closes it
		if err := p.Close(); err != nil {
			return 0, err
		}
		return folderSize(dir)
	}
	p.remove = func() error { return errors.Join(p.Close(), os.RemoveAll(dir)) }
	return p, nil
}

// folderSize is what all files of a folder take.
func folderSize(dir string) (int64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var size int64
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

// sqliteFloor inserts one row per transaction.
type sqliteFloor struct {
	dir    string
	db     *sql.DB
	insert *sql.Stmt
}

// maxLog is the size at which the store has its write-ahead log moved to the
// database. No file tells it.
const maxLog = 4 << 20

// newSQLiteFloor has pages as large as the store's and flushes as it does.
func newSQLiteFloor(ctx context.Context, parent string) (_ *sqliteFloor, err error) {
	page, err := pageSize(ctx, parent)
	if err != nil {
		return nil, err
	}
	f := &sqliteFloor{}
	if f.dir, err = os.MkdirTemp(parent, "floor"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close(ctx))
		}
	}()
	if f.db, err = sql.Open("sqlite", "file:"+filepath.Join(f.dir, databaseFile)); err != nil {
		return nil, err
	}
	f.db.SetMaxOpenConns(1)
	for _, text := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", page), "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
		fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", maxLog/page),
		"CREATE TABLE log (n INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT",
	} {
		if _, err = f.db.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	f.insert, err = f.db.PrepareContext(ctx, "INSERT INTO log (data) VALUES (?)")
	return f, err
}

// pageSize asks a file of the store's.
func pageSize(ctx context.Context, parent string) (size int, err error) {
	p, err := openSQLite(ctx, parent, setting{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	if err := p.Close(); err != nil {
		return 0, err
	}
	db, err := sql.Open("sqlite", "file:"+p.file+"?mode=ro")
	if err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "PRAGMA page_size").Scan(&size)
	return size, errors.Join(err, db.Close())
}

func (f *sqliteFloor) append(ctx context.Context, _ int, body []byte) error {
	_, err := f.insert.ExecContext(ctx, body)
	return err
}

func (f *sqliteFloor) close(context.Context) error {
	var errs []error
	if f.insert != nil {
		errs = append(errs, f.insert.Close())
	}
	if f.db != nil {
		errs = append(errs, f.db.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
