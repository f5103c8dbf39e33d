package strands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Exists reports whether there is a session in the directory: a session.json.
func (d Dir) Exists() (bool, error) {
	_, err := os.Stat(d.file(sessionFile))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, fmt.Errorf("look for session %s: %w", d.ID(), err)
}

// Save writes a state and, unless it is empty, the spec; without one the
// snapshot that is there stays. A crash leaves the old state, the new one or, if
// the state has an extension, a pair that Load knows to be torn.
func (d Dir) Save(s State, spec []byte) error {
	if err := d.save(s, spec); err != nil {
		return fmt.Errorf("save session %s: %w", d.ID(), err)
	}
	return nil
}

func (d Dir) save(s State, spec []byte) error {
	sessionJSON, patternJSON, err := s.Encode()
	if err != nil {
		return err
	}
	if err := d.make(); err != nil {
		return err
	}
	// The snapshot first: a session that can be seen can be resumed.
	if len(spec) > 0 {
		if err := replace(d.SnapshotPath(), spec); err != nil {
			return err
		}
	}
	session, pattern := d.file(sessionFile), d.file(patternFile)
	if err := writeTemp(pattern, patternJSON); err != nil {
		return err
	}
	if err := writeTemp(session, sessionJSON); err != nil {
		return errors.Join(err, os.Remove(tempPath(pattern)))
	}
	if err := renameTemp(pattern); err != nil {
		return errors.Join(err, os.Remove(tempPath(session)))
	}
	if err := renameTemp(session); err != nil {
		return err
	}
	return syncDir(string(d))
}

// make makes the directory, and its owner's alone where the other program made
// it for all to read.
func (d Dir) make() error {
	if err := makeDir(string(d)); err != nil {
		return err
	}
	info, err := os.Stat(string(d))
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(string(d), dirMode)
}

// A reader that comes between the two renames of a save tries again, after
// pauses that double: half a second in all, because the writer may have to wait
// for a processor in between.
const (
	loadTries  = 10
	firstPause = time.Millisecond
)

// Load reads the state. No session is a session.NotFoundError; one that cannot
// be used is a session.CorruptError with the file, or ErrTorn as well; a newer
// format of ours is a session.NewerFormatError.
func (d Dir) Load() (State, error) {
	for try, wait := 1, firstPause; ; try, wait = try+1, 2*wait {
		s, err := d.load()
		if try == loadTries || !errors.Is(err, ErrTorn) {
			return s, err
		}
		time.Sleep(wait)
	}
}

func (d Dir) load() (State, error) {
	sessionJSON, err := d.read(sessionFile)
	if err != nil {
		return State{}, err
	}
	patternJSON, err := d.read(patternFile)
	if err != nil {
		return State{}, err
	}
	s, err := DecodeState(sessionJSON, patternJSON)
	return s, d.locate(err)
}

// read reads a file of the directory. Without its session.json there is no
// session; without another file it is corrupt.
func (d Dir) read(name string) ([]byte, error) {
	data, err := os.ReadFile(d.file(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && name == sessionFile:
		return nil, session.NotFound(d.ID())
	case errors.Is(err, fs.ErrNotExist):
		return nil, &session.CorruptError{ID: d.ID(), Path: d.file(name), Reason: "is missing"}
	case err != nil:
		return nil, fmt.Errorf("load session %s: %w", d.ID(), err)
	}
	return data, nil
}

// Header reads the state's metadata alone, without the pattern state. The errors
// are those of Load, but for torn pairs, which it does not notice.
func (d Dir) Header() (Metadata, error) {
	data, err := d.read(sessionFile)
	if err != nil {
		return Metadata{}, err
	}
	s, err := decodeSession(data)
	return s.Metadata, d.locate(err)
}

// locate completes the error of a decoder with the session and the file's path.
func (d Dir) locate(err error) error {
	var c *session.CorruptError
	if errors.As(err, &c) {
		c.ID, c.Path = d.ID(), d.file(c.Path)
	}
	return err
}

// Snapshot reads the spec as it was when the session was made. A missing one is
// a session.CorruptError.
func (d Dir) Snapshot() ([]byte, error) { return d.read(snapshotFile) }
