// Package file keeps each session as one JSON document in a directory.
//
// It is for people who want to read, copy and back up sessions with the tools
// they have. Every save writes the whole transcript again, so its cost grows
// with the session; there is no history, no inbox and no shared forks. Choose
// another store for long sessions or many of them.
//
// The directory is the store's own (mode 0700, files 0600):
//
//	{id}.json    the session document of the last version
//	{id}.tail    the open tail: one JSON line per append
//	{id}.lease   who may execute
//	{id}.lock    locked around every write; never removed
//	.tokens      the last fencing token handed out
//	tenants/T/   the same again for a tenant other than "default"
//
// Documents, tails and leases have checksums. Whoever changes a document by hand
// removes its fields "sum", "headSum" and "headSize": it is then read without.
//
// Several processes may use one directory at the same time. Writers lock the
// session's lock file; readers lock nothing and never wait. The locks are those
// of flock(2): do not share the directory over a network file system that does
// not support them.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Config holds the options of a store. The zero value is the default.
type Config struct {
	// Now decides when leases end. Nil: time.Now.
	Now func() time.Time

	// OnWrite is called before and after each step that touches the disk, as
	// "before document rename" and "after document rename", by the goroutine
	// that does it and while the session is locked. Tests end the process inside
	// it to see what a crash at that point leaves behind. May be nil.
	OnWrite func(point string)

	// Folders gives each session a folder of its own, outside the store's
	// directory, for its document, tail and lease. Locks and tokens stay in
	// the directory. Nil: all sessions are in the directory itself.
	Folders Folders
}

// Folders says where the sessions' folders are.
type Folders interface {
	// Folder returns the absolute path of a session's folder, whether it exists
	// or not. The store makes it with the session.
	Folder(r store.Ref) string
	// Sessions returns the ids of a tenant's sessions that have a folder.
	Sessions(tenant string) ([]string, error)
	// Deleting is called before a session's files are removed, and Deleted,
	// which removes the folder, after it, while nobody else can write the
	// session. A crash in between leaves the session or its folder.
	Deleting(r store.Ref) error
	Deleted(r store.Ref) error
}

// Store keeps sessions in a directory. Besides store.Store it has the
// abilities Tails, Leases and Wakes.
type Store struct {
	dir         string
	now         func() time.Time
	disk        disk
	queue       queue
	cache       cache
	subscribers store.Subscribers
	closed      atomic.Bool

	folders Folders

	tenants sync.Map                             // those whose directory is known to be durable
	listed  func(dir, name string) (bool, error) // how a name is spelled on disk, see exact
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Tails  = (*Store)(nil)
	_ store.Leases = (*Store)(nil)
	_ store.Wakes  = (*Store)(nil)
)

const (
	tenantsDir  = "tenants"
	dirMode     = 0o700
	fileMode    = 0o600
	documentExt = ".json"
)

// Open opens the store in a directory, which is made if it is missing. A
// directory that is not empty keeps its permissions. A read-only directory gives
// a read-only store.
func Open(dir string, c Config) (*Store, error) {
	if dir == "" {
		return nil, &session.InvalidError{Field: "dir", Reason: "is empty"}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open file store: %w", err)
	}
	s := &Store{dir: abs, now: c.Now, disk: disk{onWrite: c.OnWrite}, listed: listed, folders: c.Folders}
	if s.now == nil {
		s.now = time.Now
	}
	if s.disk.onWrite == nil {
		s.disk.onWrite = func(string) {}
	}
	if err := s.disk.makeRoot(abs); err != nil {
		return nil, fmt.Errorf("open file store: %w", err)
	}
	s.removeAllLeftovers()
	return s, nil
}

// String names the store in errors.
func (s *Store) String() string { return "the file store" }

// Close makes every later call return ErrClosed. Running calls finish.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// Subscribe tells of writes made through this Store. Writes of other processes,
// and of other stores on the same directory, are not told of: a reader polls too.
func (s *Store) Subscribe(r store.Ref) (news <-chan struct{}, stop func()) {
	return s.subscribers.Subscribe(r)
}

// usable returns why no call can begin: the store is closed or the context has
// ended.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return fmt.Errorf("file store %s: %w", s.dir, session.ErrClosed)
	}
	return ctx.Err()
}

// place is the paths of one session's files.
type place struct {
	ref   store.Ref
	dir   string
	locks string // the directory of its lock
}

// at begins a call on one session and returns its place. Only checked names
// get into a path.
func (s *Store) at(ctx context.Context, r store.Ref) (place, error) {
	if err := s.usable(ctx); err != nil {
		return place{}, err
	}
	if err := r.Check(); err != nil {
		return place{}, err
	}
	return s.placeOf(r), nil
}

func (s *Store) placeOf(r store.Ref) place {
	p := place{ref: r, dir: s.tenantDir(r.Tenant), locks: s.tenantDir(r.Tenant)}
	if s.folders != nil {
		p.dir = s.folders.Folder(r)
	}
	return p
}

func (s *Store) tenantDir(tenant string) string {
	if tenant == session.DefaultTenant {
		return s.dir
	}
	return filepath.Join(s.dir, tenantsDir, tenant)
}

func (p place) path(ext string) string { return filepath.Join(p.dir, p.ref.ID+ext) }
func (p place) document() string       { return p.path(documentExt) }
func (p place) tail() string           { return p.path(".tail") }
func (p place) lease() string          { return p.path(".lease") }
func (p place) lock() string           { return filepath.Join(p.locks, p.ref.ID+".lock") }

// exists reports whether a session exists, readable or not. On a file system
// that ignores case the file of another id does not count.
func (s *Store) exists(p place) (bool, error) {
	switch _, err := os.Lstat(p.document()); {
	case err == nil:
		return s.exact(p)
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("look for session %s: %w", p.ref.ID, err)
	}
	// Without this check every session would seem missing if the directory is gone.
	if _, err := os.Stat(s.dir); err != nil {
		return false, fmt.Errorf("file store: %w", err)
	}
	return false, nil
}

// exact reports whether an existing document has exactly this id and tenant, and
// not one that differs in case. It looks into the document first, and reads the
// directory only if that does not tell.
func (s *Store) exact(p place) (bool, error) {
	if f, _, err := p.openDocument(); err == nil {
		_, err = p.readHeader(f)
		_ = f.Close() // it was only read
		if err == nil {
			return true, nil
		}
	}
	if ok, err := s.listed(p.dir, p.ref.ID+documentExt); err != nil || !ok {
		return false, err
	}
	if p.ref.Tenant == session.DefaultTenant {
		return true, nil
	}
	return s.listed(filepath.Dir(p.locks), p.ref.Tenant)
}

// listed reports whether a directory has an entry of exactly this name.
func listed(dir, name string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("read directory: %w", err)
	}
	for _, e := range entries {
		if e.Name() == name {
			return true, nil
		}
	}
	return false, nil
}
