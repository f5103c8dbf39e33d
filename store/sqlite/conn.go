package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// connector opens connections to one database file.
type connector struct {
	db          *sql.DB
	synchronous Synchronous
	still       *unchanging // of a database that is read without its log, or nil
}

// openTimeout is how long SQLite itself waits for a lock when a database is
// opened, recovered or closed. For writes the writer waits instead.
const openTimeout = 10 * time.Second

const (
	// pageSize is that of new databases. A change of a little more than a
	// kilobyte leaves a fourth of a larger page empty, and a save writes whole
	// pages: with small ones it writes a third of the bytes.
	pageSize = 1 << 10

	// maxLog is the size of the write-ahead log at which it is moved to the
	// database. Flushing a log that is overwritten costs less than flushing one
	// that grows.
	maxLog = 4 << 20

	// maxIdleLog is the size to which the log file is cut when it was moved.
	maxIdleLog = 16 << 20
)

func newConnector(path string, synchronous Synchronous, still *unchanging) (connector, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw"} // Open has made the file; SQLite must not
	if still != nil {
		name.RawQuery = "mode=ro&immutable=1"
	}
	db, err := sql.Open("sqlite", name.String())
	return connector{db: db, synchronous: synchronous, still: still}, err
}

// connect opens one connection and sets what the file does not store.
func (k connector) connect(ctx context.Context, pragmas ...string) (*conn, error) {
	raw, err := k.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, stmts: map[string]statement{}, onWrite: func(string) {}, cache: rowCache{rows: map[store.Ref]row{}}}
	for _, pragma := range append([]string{
		"busy_timeout = " + millis(openTimeout), "foreign_keys = ON", "temp_store = MEMORY",
		"synchronous = " + k.synchronous.pragma(), "journal_size_limit = " + strconv.Itoa(maxIdleLog),
		"wal_autocheckpoint = " + strconv.Itoa(maxLog/pageSize),
	}, pragmas...) {
		if err := c.run(ctx, "PRAGMA "+pragma); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// conn is one connection with the statements it has prepared. One goroutine
// uses it at a time.
type conn struct {
	raw     *sql.Conn
	stmts   map[string]statement
	onWrite func(point string) // called after each group of statements that writes
	cache   rowCache           // of the connection that writes
	wrote   bool               // a statement that writes was executed
}

// run executes text that is used once.
func (c *conn) run(ctx context.Context, text string) error {
	_, err := c.raw.ExecContext(ctx, text)
	return err
}

func (c *conn) close() error {
	err := c.raw.Raw(func(any) error { return c.forgetStatements() })
	return errors.Join(err, c.raw.Close())
}

// readers are connections that can only read. They are opened when they are
// needed and see the database as it was when their transaction began.
type readers struct {
	connector connector
	slots     chan *conn // holds every connection nobody uses; nil: not opened yet
	closing   chan struct{}
}

const maxReaders = 8

func newReaders(k connector) *readers {
	r := &readers{connector: k, slots: make(chan *conn, maxReaders), closing: make(chan struct{})}
	for range maxReaders {
		r.slots <- nil
	}
	return r
}

// errClosing refuses calls that come after Close.
var errClosing = errors.New("the store is closing")

// read runs look in one transaction.
func (r *readers) read(ctx context.Context, look func(context.Context, *conn) error) error {
	return r.lend(ctx, func(c *conn) (broken bool, err error) {
		// A BEGIN that is cancelled half-way could leave an open transaction.
		if _, err := c.exec(context.WithoutCancel(ctx), "BEGIN"); err != nil {
			return false, err
		}
		err = look(ctx, c)
		_, e := c.exec(context.WithoutCancel(ctx), "ROLLBACK")
		return e != nil, errors.Join(err, e)
	})
}

// readOnce runs look, which executes one statement. That needs no transaction.
func (r *readers) readOnce(ctx context.Context, look func(context.Context, *conn) error) error {
	return r.lend(ctx, func(c *conn) (bool, error) { return false, look(ctx, c) })
}

// lend passes a connection to use, which reports whether it broke it.
func (r *readers) lend(ctx context.Context, use func(*conn) (broken bool, err error)) (err error) {
	var c *conn
	select {
	case <-r.closing:
		return errClosing
	default:
	}
	select {
	case c = <-r.slots:
	case <-r.closing:
		return errClosing
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.slots <- c }()
	if c == nil {
		if c, err = r.connector.connect(ctx, "query_only = ON"); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	broken, err := use(c)
	if r.connector.still != nil { // whatever was found, it may come from two states of the file
		err = cmp.Or(r.connector.still.check(), err)
	}
	if broken {
		err = errors.Join(err, c.close())
		c = nil
	}
	return err
}

// close waits for every reader and closes its connection.
func (r *readers) close() error {
	close(r.closing)
	var errs []error
	for range maxReaders {
		if c := <-r.slots; c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}
