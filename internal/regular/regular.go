// Package regular reads and replaces regular files that somebody else may have
// put there: it never waits for a pipe, touches a device or reads more than it
// was told to.
package regular

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is where a file is opened: an os.Root, which no link leads out of, or
// the whole system.
type folder interface {
	Stat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error)
}

type system struct{}

func (system) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (system) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, mode)
}

// Open opens a regular file of root for reading. The errors call the file shown.
func Open(root *os.Root, name, shown string) (*os.File, fs.FileInfo, error) {
	return open(root, name, shown)
}

func open(in folder, name, shown string) (*os.File, fs.FileInfo, error) {
	info, err := in.Stat(name)
	if err == nil {
		err = checkRegular(shown, info)
	}
	if err != nil {
		return nil, nil, ShortError(shown, err)
	}
	f, err := in.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, nil, ShortError(shown, err)
	}
	info, err = f.Stat() // it may be another file than a moment ago
	if err == nil {
		err = checkRegular(shown, info)
	}
	if err != nil {
		return nil, nil, errors.Join(ShortError(shown, err), f.Close())
	}
	return f, info, nil
}

// Read reads a regular file of root, of at most most bytes. The errors call the
// file shown.
func Read(root *os.Root, name, shown string, most int64) ([]byte, error) {
	return read(root, name, shown, most)
}

// ReadPath is Read for a path anywhere in the system; links are followed.
func ReadPath(path string, most int64) ([]byte, error) { return read(system{}, path, path, most) }

func read(in folder, name, shown string, most int64) ([]byte, error) {
	f, info, err := open(in, name, shown)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info.Size() > most {
		return nil, &TooLongError{Name: shown, Size: info.Size(), Most: most}
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, ShortError(shown, err)
	case int64(len(data)) > most:
		return nil, &TooLongError{Name: shown, Size: int64(len(data)), Most: most}
	}
	return data, nil
}

// Replace writes a file at once: whoever opens it sees the old content or
// the new, and after a crash it has one of them. The permissions stay. A crash
// may leave a file called .holdfast-….tmp behind. The errors call the file
// shown.
func Replace(root *os.Root, name, shown string, content []byte) (replaced bool, err error) {
	mode := fs.FileMode(0)
	info, err := root.Lstat(name)
	if err == nil {
		mode, replaced = info.Mode().Perm(), true
		err = checkRegular(shown, info)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, ShortError(shown, err)
	}
	temporary := filepath.Join(filepath.Dir(name), ".holdfast-"+rand.Text()+".tmp")
	if err := writeNew(root, temporary, content, mode); err != nil {
		return false, ShortError(shown, err)
	}
	if err := root.Rename(temporary, name); err != nil {
		return false, errors.Join(ShortError(shown, err), root.Remove(temporary))
	}
	// The name is durable when its directory is. Not every system can do that.
	if dir, err := root.Open(filepath.Dir(name)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return replaced, nil
}

// writeNew writes a durable file that did not exist; mode 0 is the system's
// choice. After an error there is none.
func writeNew(root *os.Root, name string, content []byte, mode fs.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	return nil
}

// TooLongError is a file that is longer than what may be read or written.
type TooLongError struct {
	Name       string
	Size, Most int64 // bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%s is too long: %d bytes, at most %d", e.Name, e.Size, e.Most)
}

func checkRegular(shown string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return fmt.Errorf("%s is a directory", shown)
	}
	return fmt.Errorf("%s is no regular file", shown)
}

// ShortError shortens an error of the file system to the file, as shown, and
// the reason. It leaves other errors alone.
func ShortError(shown string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return fmt.Errorf("%s: %w", shown, p.Err)
	case errors.As(err, &l):
		return fmt.Errorf("%s: %w", shown, l.Err)
	}
	return err
}
