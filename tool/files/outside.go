package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/tool"
)

// enter returns where a path of a call is worked on: this workspace, or, for a
// path outside that permissions let this very call use, the folder it lies in
// and nothing else. A folder whose content is wanted is opened itself. The
// caller calls leave.
func (w *Workspace) enter(ctx context.Context, path string, content bool) (in *Workspace, name string, leave func(), err error) {
	leave = func() {}
	permit, _ := tool.PermitOf(ctx)
	resolved, permitted := permit.Outside[filepath.ToSlash(path)]
	if !permitted {
		name, err = w.local(path)
		return w, name, leave, err
	}
	resolved = filepath.Clean(filepath.FromSlash(resolved))
	dir, name := filepath.Dir(resolved), filepath.Base(resolved)
	if info, err := os.Lstat(resolved); content && err == nil && info.IsDir() {
		dir, name = resolved, "."
	}
	root, err := openExactly(dir)
	if err != nil {
		return nil, "", leave, regular.ShortError(visible(path), err)
	}
	if info, err := root.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, "", leave, errors.Join(fmt.Errorf("%s has become a symbolic link", visible(path)), root.Close())
	}
	in = &Workspace{config: w.config, root: root, bases: []string{dir}, write: w.write, outside: dir}
	return in, name, func() { _ = root.Close() }, nil
}

// openExactly opens a folder by a path without symbolic links. Every folder on
// the way is looked at and then opened from the one above it, so that no link
// that is put there meanwhile leads elsewhere.
func openExactly(dir string) (*os.Root, error) {
	top := filepath.VolumeName(dir) + string(filepath.Separator)
	at, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(dir, top), string(filepath.Separator)) {
		if part == "" {
			continue
		}
		next, err := openFolder(at, part)
		_ = at.Close() // nothing was written
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func openFolder(at *os.Root, name string) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && (!seen.IsDir() || !os.SameFile(seen, opened)) {
		err = fmt.Errorf("%s is not the folder it was", visible(name))
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// shown returns a local name as results show it: relative to the workspace, or
// the whole path of what lies outside.
func (w *Workspace) shown(name string) string { return slashed(filepath.Join(w.outside, name)) }
