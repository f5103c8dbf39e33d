package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"

	codes "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// migrations are the steps from one schema to the next, in the order of their
// names; the n-th makes schema n. A released one never changes.
//
//go:embed migrations/*.sql
var migrations embed.FS

// sumsSchema is the schema that added checksums. Its step fills them in.
const sumsSchema = 8

// wordsSchema is the schema since which words are folded and stemmed. Its step
// begins the index anew.
const wordsSchema = 12

// applicationID marks a database file as one of ours ("Hold").
const applicationID = 0x486f6c64

// migration brings a database up to date.
type migration struct {
	path     string
	onWrite  func(point string)
	progress store.Progress
	steps    []string // all there are; the n-th makes schema n
	logless  bool     // the database is read without its log
}

// prepare makes the database ready for the writer. The file is not written to
// before it is known to be ours.
func (m *migration) prepare(ctx context.Context, c *conn) (err error) {
	if m.steps, err = fs.Glob(migrations, "migrations/*.sql"); err != nil {
		return err
	}
	if _, err := m.schemaOf(ctx, c); err != nil {
		return err
	}
	if !m.logless {
		m.onWrite("before journal mode")
		if err := c.useWAL(ctx); err != nil {
			return err
		}
	}
	if err := m.run(ctx, c); err != nil {
		return err
	}
	return c.run(ctx, "PRAGMA busy_timeout = 0") // the writer itself waits for the lock
}

// useWAL switches to the write-ahead log, which is stored in the file. An empty
// file gets its page size, too; any other keeps the one it has.
func (c *conn) useWAL(ctx context.Context) error {
	if err := c.run(ctx, "PRAGMA page_size = "+strconv.Itoa(pageSize)); err != nil {
		return err
	}
	var mode string
	if _, err := c.one(ctx, "PRAGMA journal_mode = WAL", nil, &mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("SQLite cannot use a write-ahead log here (journal mode %s), put the database on a local disk", mode)
	}
	return nil
}

// schemaOf reads which schema a database has, without writing to it. An
// InvalidError says that the file belongs to another program, a
// NewerFormatError that it is of a newer one.
func (m *migration) schemaOf(ctx context.Context, c *conn) (int, error) {
	var app, schema, tables int // read at once: another process may be making them
	if _, err := c.one(ctx, "SELECT a.application_id, u.user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id a, pragma_user_version u",
		nil, &app, &schema, &tables); err != nil {
		return 0, err
	}
	switch known := len(m.steps); {
	case app != applicationID && (app != 0 || schema != 0 || tables != 0):
		return 0, &session.InvalidError{Field: "path", Reason: m.path + " is a SQLite database of another program"}
	case schema > known:
		return 0, &session.NewerFormatError{What: "schema of " + m.path + ",", Have: strconv.Itoa(schema) + ",", Know: strconv.Itoa(known)}
	}
	return schema, nil
}

// run brings the database to the newest schema, each step in a transaction of
// its own that also sets the schema's number. The write lock keeps other
// processes from doing the same at the same time. Making a new database reports
// no progress.
func (m *migration) run(ctx context.Context, c *conn) error {
	first, err := m.schemaOf(ctx, c)
	if err != nil {
		return err
	}
	for schema := first; ; {
		if first > 0 && first < len(m.steps) {
			m.progress.Report(schema-first, len(m.steps)-first)
		}
		if schema == len(m.steps) {
			return nil
		}
		if err := m.step(ctx, c); err != nil {
			return err
		}
		if schema, err = m.schemaOf(ctx, c); err != nil {
			return err
		}
	}
}

// step makes one step, unless another process has made the last one meanwhile.
func (m *migration) step(ctx context.Context, c *conn) (err error) {
	m.onWrite("before migration begin")
	for {
		err := c.run(ctx, "BEGIN IMMEDIATE")
		if err == nil {
			break
		}
		// Another process may migrate a large database for longer than SQLite waits.
		if ctx.Err() != nil || !isCode(err, codes.SQLITE_BUSY) {
			return err
		}
	}
	defer func() {
		if err != nil {
			_ = c.run(context.WithoutCancel(ctx), "ROLLBACK") // closing the connection does it too
		}
	}()
	schema, err := m.schemaOf(ctx, c)
	if err != nil {
		return err
	}
	if schema < len(m.steps) {
		text, err := migrations.ReadFile(m.steps[schema])
		if err != nil {
			return err
		}
		m.onWrite("before migration " + strconv.Itoa(schema+1))
		mark := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schema+1)
		if err := c.run(ctx, mark+string(text)); isCode(err, codes.SQLITE_READONLY) {
			return readOnly(m.path, "its schema is not this program's and must be brought up to date first; open it once where it can be written")
		} else if err != nil {
			return fmt.Errorf("make schema %d: %w", schema+1, err)
		}
		if schema+1 == sumsSchema {
			if err := c.addMissingSums(ctx); err != nil {
				return fmt.Errorf("make schema %d: %w", schema+1, err)
			}
		}
		if schema+1 == wordsSchema {
			if err := c.startIndex(ctx); err != nil {
				return fmt.Errorf("make schema %d: %w", schema+1, err)
			}
		}
		if schema+1 == len(m.steps) {
			if err := c.tagMissing(ctx); err != nil {
				return fmt.Errorf("tag the sessions of an earlier program: %w", err)
			}
		}
	}
	m.onWrite("before migration commit")
	if err := c.run(ctx, "COMMIT"); err != nil {
		return err
	}
	m.onWrite("after migration commit")
	return nil
}
