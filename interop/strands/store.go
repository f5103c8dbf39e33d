package strands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

// StoreConfig has the options of a store. The zero value is the default.
type StoreConfig struct {
	Now     func() time.Time   // decides when leases end; nil: time.Now
	Logger  *slog.Logger       // gets a warning for files that cannot be written or taken over whole; nil: none
	OnWrite func(point string) // as in package file, for tests
}

// Store keeps sessions in a directory that strands-cli uses too.
//
// The truth is a log of our own, session_<id>/holdfast/, in the form of package
// file. After every commit of a workflow run the files of the layout are
// written from it, so that the other program can list and show the run at any
// moment, and resume it while nobody runs it here; whoever runs it here holds
// the lock on the file .lock. While a run is held its files follow its commits in
// the background, and versions that come faster are passed over; before the run
// is released they say what the log says. Sessions of other kinds live in their log alone
// and are invisible to the other program.
//
// Runs that the other program made are listed and loaded as they are, and get
// their log when something is first done with them here. Where it went on with a run, what its files say beyond the log
// becomes one more commit; files that contradict the log are a
// session.ConflictError, and stay as they are. Files that a crash left behind
// the log, or torn, are written again.
//
// Besides store.Store it has the abilities Tails, Leases and Wakes.
type Store struct {
	dir  string
	log  *slog.Logger
	logs *file.Store

	writing sync.Mutex // one writer of a run's files at a time

	mu      sync.Mutex // guards what follows
	held    map[store.Ref]holding
	writers map[store.Ref]*fileWriter
}

// holding is a session that is run here.
type holding struct {
	token  int64
	unlock func() error // nil: a silent run that lost its lease has the lock
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Tails  = (*Store)(nil)
	_ store.Leases = (*Store)(nil)
	_ store.Wakes  = (*Store)(nil)
)

const (
	ownDir     = ".holdfast" // locks and tokens
	tenantsDir = "tenants"
)

// Open opens the store in a directory, which is made where it is missing.
func Open(dir string, c StoreConfig) (*Store, error) {
	if dir == "" {
		return nil, &session.InvalidError{Field: "dir", Reason: "is empty"}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open strands store: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := makeDir(abs); err != nil {
		return nil, fmt.Errorf("open strands store: %w", err)
	}
	logs, err := file.Open(filepath.Join(abs, ownDir), file.Config{Now: c.Now, OnWrite: c.OnWrite, Folders: folders(abs)})
	if err != nil {
		return nil, fmt.Errorf("open strands store: %w", err)
	}
	return &Store{dir: abs, log: c.Logger, logs: logs, held: map[store.Ref]holding{}, writers: map[store.Ref]*fileWriter{}}, nil
}

// folders tells package file where the logs of sessions lie.
type folders string

// Folder returns where a session's log lies.
func (f folders) Folder(r store.Ref) string { return f.at(r).LogDir() }

func (f folders) at(r store.Ref) Dir {
	return Dir(filepath.Join(f.tenant(r.Tenant), sessionPrefix+r.ID))
}

func (f folders) tenant(tenant string) string {
	if tenant == session.DefaultTenant {
		return string(f)
	}
	return filepath.Join(string(f), tenantsDir, tenant)
}

// Sessions returns the ids of all sessions, whoever made their directories.
func (f folders) Sessions(tenant string) ([]string, error) {
	ids, err := sessionsIn(f.tenant(tenant))
	if errors.Is(err, fs.ErrNotExist) && tenant != session.DefaultTenant {
		return nil, nil
	}
	return ids, err
}

func (s *Store) at(r store.Ref) Dir { return folders(s.dir).at(r) }

// String names the store in errors.
func (s *Store) String() string { return "the strands store" }

// Close releases the locks of running sessions. Every later call is
// session.ErrClosed.
func (s *Store) Close() error {
	s.awaitAllFiles()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for r, h := range s.held {
		if h.unlock != nil {
			errs = append(errs, h.unlock())
		}
		delete(s.held, r)
	}
	return errors.Join(append(errs, s.logs.Close())...)
}

// Create stores a new session. A directory of the other program under its id
// is a ConflictError, as a session of our own is.
func (s *Store) Create(ctx context.Context, v session.Session, c store.Commit) (session.Session, error) {
	if v.IsZero() || store.RefOf(v).Check() != nil {
		return s.logs.Create(ctx, v, c) // which says what is wrong
	}
	if there, err := s.at(store.RefOf(v)).Exists(); err == nil && there {
		return session.Session{}, &session.ConflictError{ID: v.ID(), Reason: session.ReasonExists}
	}
	saved, err := s.logs.Create(ctx, v, c)
	if err == nil {
		s.writeFiles(ctx, saved)
	}
	return saved, err
}

// Save stores the next version. A run whose files the other program changed
// since they were written here is a ConflictError: to load it again takes the
// changes over.
func (s *Store) Save(ctx context.Context, v session.Session, c store.Commit) (session.Session, error) {
	if !v.IsZero() && v.Info().Kind == session.KindWorkflow && store.RefOf(v).Check() == nil {
		found, err := s.compare(ctx, store.RefOf(v))
		switch {
		case err == nil && found.is == changed && v.Version() <= found.log.Version:
			return session.Session{}, &session.ConflictError{ID: v.ID(), Reason: session.ReasonStale, Want: v.Version(), Have: v.Version() + 1}
		case err == nil && (found.is == unknown || found.is == changed):
			if err := s.reconcile(ctx, store.RefOf(v), false); err != nil {
				return session.Session{}, err
			}
		}
	}
	if c.Release {
		s.awaitFiles(store.RefOf(v))
	}
	saved, err := s.logs.Save(ctx, v, c)
	switch {
	case err != nil:
		return saved, err
	case c.Release:
		s.writeFiles(ctx, saved)
		s.unlockRun(store.RefOf(v), c.Fence)
	case s.holds(store.RefOf(v), c.Fence):
		s.queueFiles(saved) //nolint:contextcheck // the files are written after the call
	default:
		s.writeFiles(ctx, saved)
	}
	return saved, nil
}

// Append adds to the open tail. The layout shows versions only.
func (s *Store) Append(ctx context.Context, v session.Session, a store.Append) (session.Session, error) {
	return s.logs.Append(ctx, v, a)
}

// Load reads a session with what the other program did since the last save. It
// writes nothing that is the other program's.
func (s *Store) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	found, err := s.compare(ctx, r)
	if err == nil && (found.is == unknown || found.is == changed) {
		next, at, _, err := s.extended(ctx, r, found.is)
		return session.Seal(next, at), err
	}
	if err == nil {
		err = s.reconcile(ctx, r, false)
	}
	if err != nil {
		return session.Session{}, err
	}
	return s.logs.Load(ctx, r, tail)
}

// extended returns a session with what its files say beyond its log, as changes
// that are not saved, and when that was. Notes say what could not be taken over.
func (s *Store) extended(ctx context.Context, r store.Ref, is relation) (next session.Session, at time.Time, notes []string, err error) {
	c, err := s.at(r).contents("")
	if err != nil {
		return next, at, nil, err
	}
	at = c.state.Metadata.UpdatedAt
	if is == unknown {
		next, notes, err = c.newSession(session.Identity{ID: r.ID, Tenant: r.Tenant}) //nolint:contextcheck // to look at a log waits for nothing
		return next, at, notes, err
	}
	if next, err = s.logs.Load(ctx, r, true); err != nil {
		return next, at, nil, err
	}
	next, notes, err = c.extend(next) //nolint:contextcheck // to look at a log waits for nothing
	return next, at, notes, err
}

// Interrupted lists the runs that were interrupted here. What the other program left
// running is found by its status alone.
func (s *Store) Interrupted(ctx context.Context, tenant string) ([]store.Ref, error) {
	return s.logs.Interrupted(ctx, tenant)
}

// Subscribe tells of writes made through this Store.
func (s *Store) Subscribe(r store.Ref) (news <-chan struct{}, stop func()) {
	return s.logs.Subscribe(r)
}

// Delete removes a session with its whole directory.
func (s *Store) Delete(ctx context.Context, r store.Ref, fence int64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if r.Check() == nil {
		if _, err := s.logs.Info(ctx, r); errors.Is(err, session.ErrNotFound) {
			if err := s.at(r).abandon(); err != nil {
				return err
			}
		}
	}
	if err := s.logs.Delete(ctx, r, fence); err != nil {
		return err
	}
	s.unlockRun(r, fence)
	return nil
}

// abandon gives a directory of the other program, unless somebody has locked
// it, an empty log, with which it is deleted.
func (d Dir) abandon() error {
	there, err := d.Exists()
	if err != nil || !there {
		return err
	}
	unlock, err := d.Lock()
	if err != nil {
		return err
	}
	return errors.Join(makeDir(d.LogDir()), unlock())
}

// Deleting hides the session from the other program: a crash after it leaves a
// log, which writes the files again, and never a session without a log.
func (f folders) Deleting(r store.Ref) error { return f.at(r).hide() }

// Deleted removes the whole directory.
func (f folders) Deleted(r store.Ref) error { return os.RemoveAll(string(f.at(r))) }
