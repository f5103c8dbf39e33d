package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/holdfast-dev/holdfast/session"
)

// migrations are the steps from one schema to the next, in the order of their
// names; the n-th makes schema n. A released one never changes.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks a database file as one of ours ("Hold").
const applicationID = 0x486f6c64

// prepare makes the database ready for the writer. The file is not written to
// before it is known to be ours.
func (c *conn) prepare(ctx context.Context, path string, onWrite func(string)) error {
	known, err := newestSchema()
	if err != nil {
		return err
	}
	if _, err := c.schemaOf(ctx, path, known); err != nil {
		return err
	}
	if err := c.run(ctx, "PRAGMA page_size = "+strconv.Itoa(pageSize)); err != nil { // a database that has pages keeps their size
		return err
	}
	onWrite("before journal mode")
	if err := c.useWAL(ctx); err != nil {
		return err
	}
	if err := c.migrate(ctx, path, onWrite); err != nil {
		return err
	}
	return c.run(ctx, "PRAGMA busy_timeout = 0") // the writer stands in line for the lock by itself
}

// newestSchema is the schema this program makes.
func newestSchema() (int, error) {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	return len(steps), err
}

// useWAL switches to the write-ahead log, which the file remembers.
func (c *conn) useWAL(ctx context.Context) error {
	var mode string
	if _, err := c.one(ctx, "PRAGMA journal_mode = WAL", nil, &mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the database cannot have a write-ahead log here (journal mode %s)", mode)
	}
	return nil
}

// schemaOf reads which schema a database has, without writing to it. An
// InvalidError says that the file belongs to another program, a
// NewerFormatError that it is of a newer one.
func (c *conn) schemaOf(ctx context.Context, path string, known int) (int, error) {
	var app, schema, tables int
	for pragma, value := range map[string]*int{
		"PRAGMA application_id": &app, "PRAGMA user_version": &schema, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if _, err := c.one(ctx, pragma, nil, value); err != nil {
			return 0, err
		}
	}
	switch {
	case app != applicationID && (app != 0 || schema != 0 || tables != 0):
		return 0, &session.InvalidError{Field: "path", Reason: path + " is a SQLite database of another program"}
	case schema > known:
		return 0, &session.NewerFormatError{What: "schema of " + path + ",", Have: strconv.Itoa(schema) + ",", Know: strconv.Itoa(known)}
	}
	return schema, nil
}

// migrate brings the database to the newest schema, each step in a
// transaction of its own that also says which schema it made. The write lock
// keeps other processes from doing the same at the same time.
func (c *conn) migrate(ctx context.Context, path string, onWrite func(string)) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	for {
		schema, err := c.schemaOf(ctx, path, len(steps))
		if err != nil || schema == len(steps) {
			return err
		}
		if err := c.step(ctx, path, steps, onWrite); err != nil {
			return err
		}
	}
}

// step makes one step, unless another process has made the last one meanwhile.
func (c *conn) step(ctx context.Context, path string, steps []string, onWrite func(string)) (err error) {
	onWrite("before migration begin")
	if err := c.run(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = c.run(context.WithoutCancel(ctx), "ROLLBACK") // closing the connection does it too
		}
	}()
	schema, err := c.schemaOf(ctx, path, len(steps))
	if err != nil {
		return err
	}
	if schema < len(steps) {
		text, err := migrations.ReadFile(steps[schema])
		if err != nil {
			return err
		}
		onWrite("before migration " + strconv.Itoa(schema+1))
		mark := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schema+1)
		if err := c.run(ctx, string(text)+mark); err != nil {
			return fmt.Errorf("make schema %d: %w", schema+1, err)
		}
	}
	onWrite("before migration commit")
	if err := c.run(ctx, "COMMIT"); err != nil {
		return err
	}
	onWrite("after migration commit")
	return nil
}
