package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/session"
)

// A database in a directory that cannot be written to has no place for the -wal
// and -shm files. It can be read without them (SQLite calls that immutable) as
// long as nobody writes to it: then the file alone has everything. SQLite does
// not look whether that holds, so every read does.

// unchanging is what the files of a database look like while nobody writes.
type unchanging struct {
	path string
	size int64
	time time.Time
}

// beUnchanging looks at a database that is to be read without its log. It is an
// error if there is a log, because the file alone then lacks its commits.
func beUnchanging(path string) (unchanging, error) {
	info, err := os.Stat(path)
	if err != nil {
		return unchanging{}, err
	}
	switch log, err := os.Stat(path + "-wal"); {
	case err == nil && log.Size() > 0:
		return unchanging{}, readOnly(path, "its directory cannot be written to, and "+path+"-wal has commits that are not in the database yet; "+
			"open it once where it can be written, or copy both files to such a directory")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return unchanging{}, err
	}
	return unchanging{path: path, size: info.Size(), time: info.ModTime()}, nil
}

// check returns a BusyError if somebody has written since.
func (u unchanging) check() error {
	now, err := beUnchanging(u.path)
	if err == nil && now == u {
		return nil
	}
	return fmt.Errorf("%w: another process has written to %s, which is read without its log; read it again", session.ErrBusy, u.path)
}

// hasNoPlaceForLog reports an error of SQLite that means that the log beside a
// database can be neither opened nor made.
func hasNoPlaceForLog(err error) bool {
	return isCode(err, codes.SQLITE_CANTOPEN) || isCode(err, codes.SQLITE_READONLY)
}

func readOnly(path, reason string) error {
	return &session.ReadOnlyError{Store: "the sqlite store " + path, Reason: reason}
}
