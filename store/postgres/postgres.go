// Package postgres keeps sessions in a PostgreSQL database, for any number of
// nodes at the same time. It has every ability.
//
// A save is one statement, one round trip and one transaction: the session's
// row is moved on where version, last change and lease are what the writer
// knows, and the log rows, the commit and everything else are written only if
// it was. So are an append and the start of an execution. When many come at
// once, several share a round trip and a transaction. No transaction is open
// between two calls. Only the database's clock decides about leases and
// keys, never a node's.
//
// The folded state of a session is written as a snapshot every now and then, not
// at every save; loading folds the changes since the newest one. A save relies
// on the session's row alone, whose header has a checksum. A damaged snapshot is
// found when it is read, and no version is ever folded from it.
//
// # Many nodes
//
// Nodes share nothing but the database. No node owns a session: nodes that write
// the same session compete for its row, and the version or the lease decides.
// Writes to a session drop its old keys. The index of words is the only shared
// background work; a node skips what another has locked.
//
// # Lost connections
//
// Requests that certainly were not carried out, or that may be carried out
// twice, are retried for a few seconds. If the connection is lost during a save,
// the store asks the database whether the save was made, and returns
// session.UnknownOutcomeError only where it gets no answer.
//
// # Poolers
//
// Behind a pooler in transaction mode (PgBouncer and its like) set
// Config.Pooled: no statement is prepared then. LISTEN does not work through
// such a pooler. Give Config.ListenURL, an address of the database itself, or
// rely on polling. A schema of its own must be set as the role's search_path,
// because poolers do not pass on the one in the URL.
//
// # Failover
//
// Name all hosts in the URL, and ask for the one that writes:
//
//	postgres://user@a:5432,b:5432/db?target_session_attrs=read-write
//
// When a standby is promoted, the store finds it by itself. A host that stays
// silent costs each new connection a part of Config.CallTimeout, not all of it.
// With an asynchronous standby a failover can lose acknowledged saves and
// hand out lease tokens again, as with any program. Use a synchronous one, and
// do not point the store at a replica.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/warm"
)

// Config holds the options of a store. The zero value is the default.
type Config struct {
	// MaxConns is how many connections the store opens at most, besides the
	// one it listens on. 0: 10.
	MaxConns int

	// Pooled says that the URL is that of a pooler in transaction mode.
	Pooled bool

	// ListenURL is where to listen for writes of other nodes. Empty: the
	// store's own URL, or nowhere if Pooled.
	ListenURL string

	// CallTimeout is how long a call waits for the database's answer before its
	// connection is dropped and replaced. Checks, repairs and migrations are not
	// bounded. 0: 10 s.
	CallTimeout time.Duration

	// Poll is how often sessions that somebody waits for are polled, in case a notification
	// was lost. 0: every second.
	Poll time.Duration

	// WarmBytes is about how much memory may hold sessions that were read or
	// written lately, so that loading one again costs little. 0: 64 MiB; less
	// than 0: none.
	WarmBytes int64

	// Logger gets a warning when listening is interrupted, or background work
	// fails and will be done again. Nil: nothing is logged.
	Logger *slog.Logger

	// OnMigrate gets the progress, in steps, if Open migrates the database's
	// schema. May be nil.
	OnMigrate store.Progress

	// OnWrite is called before and after each request that writes, as "before
	// save" and "after save", by the goroutine that makes it. It is there for
	// tests that end the process at that very point. May be nil.
	OnWrite func(point string)
}

const (
	defaultConns = 10
	defaultPoll  = time.Second
	connectFor   = 5 * time.Second // where the URL does not say
)

// Store keeps sessions in a database.
type Store struct {
	config       Config
	connect      *pgxpool.Config
	pool         *pgxpool.Pool
	now          func() time.Time // nil: the database's clock, always but in tests
	retryFor     time.Duration
	countsFor    time.Duration // how long a request counts as in flight
	snapshotsDue snapshotsDue
	warm         *warm.Cache
	batcher      batcher
	subscribers  store.Subscribers
	notices      notices
	listener     *listener
	index        indexing
	cells        cellBuilding
	closed       atomic.Bool
	closing      chan struct{} // closed when the store is

	background sync.WaitGroup
	stop       context.CancelFunc // ends the background work
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Tails   = (*Store)(nil)
	_ store.Starts  = (*Store)(nil)
	_ store.Leases  = (*Store)(nil)
	_ store.Logs    = (*Store)(nil)
	_ store.Forks   = (*Store)(nil)
	_ store.Inboxes = (*Store)(nil)
	_ store.Wakes   = (*Store)(nil)
	_ store.Keys    = (*Store)(nil)
	_ store.Sweeps  = (*Store)(nil)
)

// Open connects to a database and brings its schema up to date. The URL is a
// connection string as PostgreSQL's own programs take it. A schema newer than
// this program is NewerFormatError and is left alone.
func Open(ctx context.Context, url string, c Config) (*Store, error) {
	s, err := newStore(url, c)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// newStore returns a store that has not connected yet.
func newStore(url string, c Config) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &session.InvalidError{Field: "url", Reason: err.Error()} // it shows no password
	}
	if c.Pooled {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if c.MaxConns == 0 {
		c.MaxConns = defaultConns
	}
	if c.MaxConns < 0 || c.Poll < 0 || c.CallTimeout < 0 {
		return nil, &session.InvalidError{Field: "config", Reason: "MaxConns, Poll and CallTimeout are not negative"}
	}
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	config.ConnConfig.DialFunc = dial(c.CallTimeout)
	config.ConnConfig.ConnectTimeout = connectTimeout(&config.ConnConfig.Config, c.CallTimeout)
	config.PingTimeout = c.CallTimeout / 4
	if c.Poll == 0 {
		c.Poll = defaultPoll
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnWrite == nil {
		c.OnWrite = func(string) {}
	}
	s := &Store{config: c, retryFor: defaultRetryFor, countsFor: countsFor, closing: make(chan struct{}), warm: warm.New(warm.Limit(c.WarmBytes))}
	s.index = indexing{quiet: quietFor, late: lateAfter, soon: soonAfter, wanted: make(chan struct{}, 1), atOnce: searchAtOnce}
	s.cells.above, s.cells.maxCell, s.cells.wanted = store.IndexAbove, store.MaxCell, make(chan struct{}, 1)
	s.listener = &listener{store: s}
	switch {
	case c.ListenURL != "":
		if s.listener.config, err = pgx.ParseConfig(c.ListenURL); err != nil {
			return nil, &session.InvalidError{Field: "ListenURL", Reason: err.Error()}
		}
	case !c.Pooled:
		s.listener.config = config.ConnConfig.Copy()
	}
	config.MaxConns, config.ShouldPing = int32(min(c.MaxConns, math.MaxInt32)), shouldPing
	s.connect = config
	return s, nil
}

// start connects and starts the background work.
func (s *Store) start(ctx context.Context) (err error) {
	if s.pool, err = pgxpool.NewWithConfig(ctx, s.connect); err != nil {
		return fmt.Errorf("open postgres store: %w", err)
	}
	if err := s.migrateSchema(ctx); err != nil {
		s.pool.Close()
		return fmt.Errorf("open postgres store: %w", err)
	}
	var schema string
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT current_schema()`).Scan(&schema)
	})
	if err != nil {
		s.pool.Close()
		return fmt.Errorf("open postgres store: %w", err)
	}
	s.notices.channel = channelOf(schema)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.notices.wanted = make(chan struct{}, 1)
	s.background.Go(func() { s.notify(running) })
	s.background.Go(func() { s.fillIndex(running) })
	s.background.Go(func() { s.buildWanted(running) })
	s.listener.start = sync.OnceFunc(func() {
		s.background.Go(func() { s.listener.listen(running) })
		s.background.Go(func() { s.listener.poll(running) })
	})
	return nil
}

// String names the store in errors.
func (s *Store) String() string { return "the PostgreSQL store" }

// Close waits for calls that are under way and ends all connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.closing)
	s.listener.close()
	s.stop()
	s.background.Wait()
	s.pool.Close()
	s.warm.Clear()
	return nil
}

// Subscribe tells of writes made through this store at once, after those of
// other nodes as soon as the database tells of them or polling finds them.
func (s *Store) Subscribe(r store.Ref) (news <-chan struct{}, stop func()) {
	s.listener.open()
	return s.subscribers.Subscribe(r)
}

// announce wakes the readers of a session here, and soon those of other nodes.
func (s *Store) announce(r store.Ref) {
	s.subscribers.Notify(r)
	s.notices.add(r)
	s.index.want(r)
}

// usable returns why a call cannot begin: the store is closed, the context has
// ended, or a check of the call's arguments failed.
func (s *Store) usable(ctx context.Context, checks ...error) error {
	if s.closed.Load() {
		return fmt.Errorf("postgres store: %w", session.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return cmp.Or(checks...)
}

// clock is the time that statements use: nil, so that they ask the database's
// clock, except in tests.
func (s *Store) clock() *time.Time {
	if s.now == nil {
		return nil
	}
	t := s.now()
	return &t
}

// Pieces of SQL that many statements share.
const (
	dbNow = `coalesce(@now::timestamptz, clock_timestamp())`
	held  = `(NOT lease_ended AND ` + dbNow + ` < lease_until AND lease_until <= ` + dbNow + ` + interval '24 hours')` // admission.MaxLength
)
