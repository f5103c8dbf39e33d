// Package inmem keeps sessions in memory. It has every ability but Doctors,
// because nothing in it could need repair. Nothing is durable: it is for tests,
// examples and programs that end with their conversation.
//
// It keeps everything encoded: each session is a head, a header and a log of
// records, all of them JSON, as in a database. So it shares no memory with its
// callers, and its tests find what cannot be encoded.
// The cost of a save depends on what changed and not on how long the session
// is; forks share the log they come from.
package inmem

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Config holds the options of a store. The zero value is the default.
type Config struct {
	// Now is the clock that leases and keys expire by; nil is time.Now.
	Now func() time.Time
}

// Store is a handle on sessions in memory.
type Store struct {
	data *data

	mu     sync.Mutex
	closed bool // guarded by mu
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
)

// data is what all handles on the same sessions share.
type data struct {
	now         func() time.Time
	subscribers store.Subscribers
	passages    atomic.Int64 // how many were ever made

	mu       sync.Mutex
	rows     map[store.Ref]*row                 // guarded by mu, and all that is in it
	memories map[store.Owner]map[string]*memory // likewise, by key
	token    int64                              // newest lease token, guarded by mu
}

// New returns an empty store.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Store{data: &data{now: c.Now, rows: map[store.Ref]*row{}, memories: map[store.Owner]map[string]*memory{}}}
}

// Handle returns another store on the same sessions, which is closed on its own.
// The two see each other's writes as two processes on one database do.
func (s *Store) Handle() *Store { return &Store{data: s.data} }

// String names the store in errors.
func (s *Store) String() string { return "the in-memory store" }

// Close makes every later call return ErrClosed. Other handles keep the sessions.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Subscribe tells of writes to a session.
func (s *Store) Subscribe(r store.Ref) (<-chan struct{}, func()) {
	return s.data.subscribers.Subscribe(r)
}

// usable returns why a call cannot begin: the store is closed, the context has
// ended, or a check of the call's arguments failed.
func (s *Store) usable(ctx context.Context, checks ...error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return session.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return cmp.Or(checks...)
}

// read calls look with one session's row, under the lock. What look takes out
// is never written to again, so it can be decoded after the lock is released.
func (s *Store) read(ctx context.Context, r store.Ref, look func(*row) error) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	found, ok := s.data.rows[r]
	if !ok {
		return session.NotFound(r.ID)
	}
	return look(found)
}

// write is read for calls that change the row. It wakes the session's readers.
func (s *Store) write(ctx context.Context, r store.Ref, change func(*row) error) error {
	if err := s.read(ctx, r, change); err != nil {
		return err
	}
	s.data.subscribers.Notify(r)
	return nil
}
