package strands

import (
	"fmt"

	"github.com/gofrs/flock"

	"github.com/holdfast-dev/holdfast/session"
)

// Lock makes the caller the only one to run the session, in this process and
// among all, for both programs: it takes the exclusive lock on the file .lock,
// which a crash releases. A session that is held already is a
// session.BusyError at once. Where the system knows no such locks it is an
// error. The directory is made if it is not there.
func (d Dir) Lock() (unlock func() error, err error) {
	if err := makeDir(string(d)); err != nil {
		return nil, fmt.Errorf("lock session %s: %w", d.ID(), err)
	}
	lock := flock.New(d.file(lockFile), flock.SetPermissions(fileMode))
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock session %s: %w", d.ID(), err)
	case !ok:
		return nil, &session.BusyError{ID: d.ID(), Holder: "another run"}
	}
	return lock.Unlock, nil
}
