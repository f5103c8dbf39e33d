package strands

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// Config says where sessions lie.
type Config struct {
	Dir    string       // holds one directory for each session; made when first needed
	Logger *slog.Logger // gets a warning for each session that List passes over; nil: none
}

// Repository is a directory of session directories.
type Repository struct {
	dir string
	log *slog.Logger
}

// New opens a repository. The directory need not exist.
func New(cfg Config) (*Repository, error) {
	if cfg.Dir == "" {
		return nil, &session.InvalidError{Field: "Config.Dir", Reason: "is empty"}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Repository{dir: cfg.Dir, log: cfg.Logger}, nil
}

// Session returns the directory of a session, whether it is there or not. What
// cannot be an id is a session.InvalidError.
func (r *Repository) Session(id string) (Dir, error) {
	if err := session.CheckID(id); err != nil {
		return "", err
	}
	return Dir(filepath.Join(r.dir, sessionPrefix+id)), nil
}

// Exists reports whether there is a session of this id.
func (r *Repository) Exists(id string) (bool, error) {
	d, err := r.Session(id)
	if err != nil {
		return false, err
	}
	return d.Exists()
}

// Save writes a session's state; see Dir.Save.
func (r *Repository) Save(s State, spec []byte) error {
	d, err := r.Session(s.Metadata.SessionID)
	if err != nil {
		return err
	}
	return d.Save(s, spec)
}

// Load reads a session's state; see Dir.Load. A directory that holds a session
// of another id is corrupt.
func (r *Repository) Load(id string) (State, error) {
	d, err := r.Session(id)
	if err != nil {
		return State{}, err
	}
	s, err := d.Load()
	if err == nil {
		err = d.checkOwner(s.Metadata)
	}
	if err != nil {
		return State{}, err
	}
	return s, nil
}

// checkOwner refuses the header of a session that belongs elsewhere.
func (d Dir) checkOwner(m Metadata) error {
	if m.SessionID == d.ID() {
		return nil
	}
	return &session.CorruptError{ID: d.ID(), Path: d.file(sessionFile), Reason: fmt.Sprintf("says session_id %q", m.SessionID)}
}

// Delete removes a session with everything in its directory, also one that is
// corrupt. No directory is a session.NotFoundError, a session somebody runs a
// session.BusyError.
func (r *Repository) Delete(id string) error {
	d, err := r.Session(id)
	if err != nil {
		return err
	}
	if _, err := os.Stat(string(d)); errors.Is(err, fs.ErrNotExist) {
		return session.NotFound(id)
	}
	unlock, err := d.Lock()
	if err != nil {
		return err
	}
	if err = d.hide(); err == nil {
		err = os.RemoveAll(string(d))
	}
	if err = errors.Join(err, unlock()); err != nil {
		return fmt.Errorf("delete session %s: %w", id, err)
	}
	return nil
}

// hide removes what makes a directory a session: a crash in a deletion leaves a
// whole session or none.
func (d Dir) hide() error {
	err := os.Remove(d.file(sessionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncDir(string(d)))
}

// List returns the header of every session, the one updated last first. What
// cannot be read is passed over, with a warning.
func (r *Repository) List() ([]Metadata, error) {
	ids, err := sessionsIn(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var headers []Metadata
	for _, id := range ids {
		d := Dir(filepath.Join(r.dir, sessionPrefix+id))
		m, err := d.Header()
		if err == nil {
			err = d.checkOwner(m)
		}
		switch {
		case err == nil:
			headers = append(headers, m)
		case !errors.Is(err, session.ErrNotFound):
			r.log.Warn("session passed over", "session", id, "error", err)
		}
	}
	slices.SortFunc(headers, func(a, b Metadata) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(a.SessionID, b.SessionID))
	})
	return headers, nil
}

// sessionsIn returns the ids of the sessions that have a directory, whoever made
// it.
func sessionsIn(dir string) (ids []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), sessionPrefix); ok && session.CheckID(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// AgentsDir returns where a session's conversations lie. It may not exist.
func (r *Repository) AgentsDir(id string) (string, error) {
	d, err := r.Session(id)
	if err != nil {
		return "", err
	}
	return d.AgentsDir(), nil
}

// SpecSnapshotPath returns the file with a session's spec. It may not exist.
func (r *Repository) SpecSnapshotPath(id string) (string, error) {
	d, err := r.Session(id)
	if err != nil {
		return "", err
	}
	return d.SnapshotPath(), nil
}
