// Package sqlite keeps sessions in one SQLite file. It needs nothing
// installed, has every ability, and is what a single machine should use.
//
// Any number of goroutines and processes may use one file at the same time.
// Within a process one call at a time writes: it commits its own write and all
// queued ones in one transaction (group commit), so that they share one disk
// flush. A call returns only when its data is on the disk. Readers have
// connections of their own; they see the last commit and block nobody.
//
// The file holds a log. A save adds the new changes, the last of which carries
// the commit, and once in a while the folded state without the messages (a
// head), so its cost depends on what changed. Any version is folded from the
// head before it and the few changes since. A fork is a pointer into the log of
// its parent.
//
// The file has mode 0600 and, while it is in use, two more files beside it, -wal
// and -shm: copy all of them or use SQLite's own backup. Network file systems do
// not support the locks that SQLite needs.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/warm"
)

// Synchronous says how much of the machine may fail without losing what was
// acknowledged.
type Synchronous int

const (
	// Full flushes every commit to the disk: nothing acknowledged is lost when
	// the machine loses power. It is the default.
	Full Synchronous = iota
	// Normal leaves the flushing to the system: a killed process loses
	// nothing, a machine that loses power may lose the last commits, but never
	// a part of one.
	Normal
)

func (s Synchronous) pragma() string {
	if s == Normal {
		return "NORMAL"
	}
	return "FULL"
}

// Config holds the options of a store. The zero value is the default.
type Config struct {
	// Now decides when leases end and how long keys are kept. Nil: time.Now.
	Now func() time.Time

	// Synchronous is how durable an acknowledged write is.
	Synchronous Synchronous

	// OnMigrate gets the progress, in steps, if Open brings an older schema up to
	// date. May be nil.
	OnMigrate store.Progress

	// DropDamaged opens a database whose write-ahead log is damaged, without the
	// commits that are lost, where Open else returns a DamagedLogError. The log is
	// kept beside the database, as -wal.damaged.
	DropDamaged bool

	// WarmBytes is about how much memory may hold sessions that were read or
	// written lately, so that loading one again costs little. 0: 64 MiB; less
	// than 0: none.
	WarmBytes int64

	// OnWrite is called around each step that touches the disk, as "before
	// commit" and "after commit", by the goroutine that does it. Tests end the
	// process inside it to see what a crash at that point leaves behind. May be
	// nil.
	OnWrite func(point string)
}

// Store keeps sessions in a SQLite file. It has all abilities of package store.
type Store struct {
	path        string
	now         func() time.Time
	conns       connector
	readers     *readers
	writer      *writer
	subscribers store.Subscribers
	warm        *warm.Cache
	indexer     *indexer
	cells       *cellBuilder

	closed atomic.Bool
	once   sync.Once
	err    error // of the first Close
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Tails    = (*Store)(nil)
	_ store.Leases   = (*Store)(nil)
	_ store.Starts   = (*Store)(nil)
	_ store.Logs     = (*Store)(nil)
	_ store.Forks    = (*Store)(nil)
	_ store.Inboxes  = (*Store)(nil)
	_ store.Wakes    = (*Store)(nil)
	_ store.Keys     = (*Store)(nil)
	_ store.Sweeps   = (*Store)(nil)
	_ store.Memories = (*Store)(nil)
	_ store.Vectors  = (*Store)(nil)
	_ store.Doctors  = (*Store)(nil)
)

// Open opens the store in a file, which is made where it is missing, with its
// directory. An older schema is brought up to date first, a newer one is
// NewerFormatError and stays untouched, and a file that is no SQLite database
// or that of another program is InvalidError. DamagedLogError if commits would be
// lost. The caller closes the store.
//
// A file or directory that cannot be written to gives a store that can be read;
// its writes are ReadOnlyError. Open itself returns that error if reading needs a
// write first: of a log that a crash left behind, or of a newer schema.
func Open(ctx context.Context, path string, c Config) (*Store, error) {
	if path == "" {
		return nil, &session.InvalidError{Field: "path", Reason: "is empty"}
	}
	if c.Synchronous != Full && c.Synchronous != Normal {
		return nil, &session.InvalidError{Field: "synchronous", Reason: fmt.Sprintf("%d is neither Full nor Normal", c.Synchronous)}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open sqlite store: %w", err)
	}
	s := &Store{path: abs, now: c.Now, warm: warm.New(warm.Limit(c.WarmBytes))}
	if s.now == nil {
		s.now = time.Now
	}
	if c.OnWrite == nil {
		c.OnWrite = func(string) {}
	}
	if err := makeFile(abs); err != nil {
		return nil, fmt.Errorf("open sqlite store: %w", err)
	}
	if err := checkLog(abs, c.DropDamaged); err != nil {
		return nil, fmt.Errorf("open sqlite store: %w", err)
	}
	conn, err := s.connect(ctx, c, nil)
	if hasNoPlaceForLog(err) {
		still, e := beUnchanging(abs)
		if e != nil {
			return nil, fmt.Errorf("open sqlite store: %w", e)
		}
		conn, err = s.connect(ctx, c, &still)
	}
	if err != nil {
		return nil, s.translate(ctx, err)
	}
	s.readers = newReaders(s.conns)
	s.writer = newWriter(conn, &s.subscribers, c.OnWrite)
	go s.writer.watchOthers(context.WithoutCancel(ctx), abs+"-wal") // it runs until Close
	s.indexer = newIndexer(ctx, s)
	s.cells = newCellBuilder(ctx, s)
	return s, nil
}

// connect opens the writer's connection and brings the schema up to date. Still is
// set for a database that is read without its log.
func (s *Store) connect(ctx context.Context, config Config, still *unchanging) (c *conn, err error) {
	if s.conns, err = newConnector(s.path, config.Synchronous, still); err != nil {
		return nil, err
	}
	if c, err = s.conns.connect(ctx); err == nil {
		m := migration{path: s.path, onWrite: config.OnWrite, progress: config.OnMigrate, logless: still != nil}
		if err = m.prepare(ctx, c); err == nil {
			return c, nil
		}
		err = errors.Join(err, c.close())
	}
	return nil, errors.Join(err, s.conns.db.Close())
}

// String names the store in errors.
func (s *Store) String() string { return "the sqlite store" }

// Close ends the store. Running calls finish, queued ones may be refused with
// ErrClosed, and so is every later one.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.closed.Store(true)
		s.cells.close()
		s.indexer.close()
		s.warm.Clear()
		s.err = errors.Join(s.writer.close(), s.readers.close(), s.conns.db.Close())
		if s.err != nil {
			s.err = fmt.Errorf("close sqlite store %s: %w", s.path, s.err)
		}
	})
	return s.err
}

// Subscribe tells of writes to a session. A write through this Store is told of at
// once. A write of another process is noticed within a moment, and then all
// subscribers are told, because the file does not say what was written.
func (s *Store) Subscribe(r store.Ref) (news <-chan struct{}, stop func()) {
	news, stop = s.subscribers.Subscribe(r)
	s.writer.wakeWatcher() // it watches other processes only while somebody waits
	return news, stop
}

// usable returns why a call cannot begin: the store is closed, the context has
// ended, or a check of the call's arguments failed.
func (s *Store) usable(ctx context.Context, checks ...error) error {
	if s.closed.Load() {
		return s.closedError()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return cmp.Or(checks...)
}

// read runs look in one read transaction.
func (s *Store) read(ctx context.Context, look func(context.Context, *conn) error) error {
	return s.translate(ctx, s.readers.read(ctx, look))
}

// readSession runs look with the row of a session, which must exist.
func (s *Store) readSession(ctx context.Context, r store.Ref, look func(context.Context, *conn, row) error) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	return s.read(ctx, func(ctx context.Context, c *conn) error {
		w, err := c.mustFind(ctx, r)
		if err != nil {
			return err
		}
		return look(ctx, c, w)
	})
}

// readOnce runs look, which executes one statement.
func (s *Store) readOnce(ctx context.Context, look func(context.Context, *conn) error) error {
	return s.translate(ctx, s.readers.readOnce(ctx, look))
}

// mark reads the lease of a session and what says where its log ends.
func (s *Store) mark(ctx context.Context, r store.Ref) (w row, err error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return w, err
	}
	err = s.readOnce(ctx, func(ctx context.Context, c *conn) error {
		w, err = c.findMark(ctx, r)
		return err
	})
	return w, err
}

// readMark is readSession with only the lease and what says where the log ends:
// neither the header nor a head.
func (s *Store) readMark(ctx context.Context, r store.Ref, look func(context.Context, *conn, row) error) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	return s.read(ctx, func(ctx context.Context, c *conn) error {
		w, err := c.findMark(ctx, r)
		if err != nil {
			return err
		}
		return look(ctx, c, w)
	})
}

// write returns when a request is on the disk, or refused.
func (s *Store) write(ctx context.Context, q *request) error {
	err := s.writer.submit(ctx, q)
	s.indexer.wrote()
	return s.translate(ctx, err)
}

// writeSession runs change with the row of a session, which must exist.
func (s *Store) writeSession(ctx context.Context, r store.Ref, change func(context.Context, *conn, row) error) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	return s.write(ctx, &request{ref: r, do: func(ctx context.Context, c *conn) error {
		w, err := c.mustFind(ctx, r)
		if err != nil {
			return err
		}
		return change(ctx, c, w)
	}})
}
