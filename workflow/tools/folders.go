package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
)

// maxFile bounds the bytes of a file that is read or written.
const maxFile = 10 << 20

// folders are the directories whose files can be reached. A path is resolved,
// links and all, and must end in one of them; what it leads to is then opened
// through an os.Root, so that a link put there in between leads nowhere else.
type folders struct {
	all []string // absolute, links resolved; the working directory is the first
}

func newFolders(work string, allowed []string) (folders, error) {
	var f folders
	for i, dir := range append([]string{work}, allowed...) {
		field := "Config.AllowPaths"
		if i == 0 {
			field = "Config.WorkDir"
		}
		resolved, err := filepath.Abs(dir)
		if err == nil {
			resolved, err = filepath.EvalSymlinks(resolved)
		}
		if err != nil {
			return folders{}, &session.InvalidError{Field: field, Reason: regular.ShortError(dir, err).Error()}
		}
		if info, err := os.Stat(resolved); err != nil || !info.IsDir() {
			return folders{}, &session.InvalidError{Field: field, Reason: dir + " is no directory"}
		}
		f.all = append(f.all, resolved)
	}
	return f, nil
}

// location is a path in one of the folders. Nothing need exist there.
type location struct {
	folder, name string
}

// resolve follows the links of a path and checks where it ends. With create the
// path need not exist.
func (f folders) resolve(path string, create bool) (location, error) {
	switch {
	case path == "":
		return location{}, &session.InvalidError{Field: "path", Reason: "is empty"}
	case strings.ContainsRune(path, 0):
		return location{}, &session.InvalidError{Field: "path", Reason: "has a NUL in it"}
	}
	native := filepath.Clean(filepath.FromSlash(path))
	if !filepath.IsAbs(native) {
		native = filepath.Join(f.all[0], native)
	}
	resolved, err := filepath.EvalSymlinks(native)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing { // look where it would be, so that nobody learns what exists outside
		resolved, err = resolveMissing(native)
	}
	at, inside := f.locate(resolved)
	switch _, written := f.locate(native); {
	case err == nil && inside && missing && !create:
		return location{}, fmt.Errorf("%s: %w", displayPath(path), fs.ErrNotExist)
	case err == nil && inside:
		return at, nil
	case err != nil && written:
		return location{}, fmt.Errorf("%s: %w", displayPath(path), reasonOf(err))
	}
	return location{}, &session.InvalidError{Field: "path", Reason: fmt.Sprintf("%s is outside the directories that may be used", displayPath(path))}
}

func (f folders) locate(path string) (location, bool) {
	for _, folder := range f.all {
		if rel, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(rel) {
			return location{folder, rel}, true
		}
	}
	return location{}, false
}

// reasonOf drops the system call and the resolved path from an error.
func reasonOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

var errDangling = errors.New("a symbolic link leads nowhere")

// resolveMissing resolves what exists of a path and adds the rest.
func resolveMissing(path string) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", errDangling
	}
	dir := filepath.Dir(path)
	resolved, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) && dir != path {
		resolved, err = resolveMissing(dir)
	}
	return filepath.Join(resolved, filepath.Base(path)), err
}

// root finds a path and opens the directory it is in. The caller closes that.
func (f folders) root(path string, create bool) (root *os.Root, name string, err error) {
	at, err := f.resolve(path, create)
	if err != nil {
		return nil, "", err
	}
	root, err = os.OpenRoot(at.folder)
	return root, at.name, regular.ShortError(displayPath(path), err)
}

// open opens a regular file for reading.
func (f folders) open(path string) (*os.File, fs.FileInfo, error) {
	root, name, err := f.root(path, false)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	return regular.Open(root, name, displayPath(path))
}

// read reads a whole file that is not too long.
func (f folders) read(path string) ([]byte, error) {
	root, name, err := f.root(path, false)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	data, err := regular.Read(root, name, displayPath(path), maxFile)
	if long := (*regular.TooLongError)(nil); errors.As(err, &long) {
		return nil, tooLong(path)
	}
	return data, err
}

func tooLong(path string) error {
	return fmt.Errorf("%s is too long: more than %d MiB", displayPath(path), maxFile>>20)
}
