// Package files lets an agent work on the files of one folder. Nothing outside
// is reachable, except what a permit of the call names (tool.Permit): every
// access goes through an os.Root, so that neither a path nor a symbolic link
// nor a race between the two leads out. Hard links and mounts inside the folder
// count as inside.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config says where the files are and how much of them is shown.
type Config struct {
	Dir      string // the workspace; it must exist
	ReadOnly bool   // leave out the tools that change something

	MaxResult int   // bytes of a result; 0: 64 KiB
	MaxFile   int64 // bytes of a file that is edited or searched; 0: 8 MiB
}

// Workspace is a folder and the tools for it. It is safe for concurrent use,
// also by several agents: a file is replaced at once, and of two edits of one
// file none is lost.
type Workspace struct {
	config Config
	root   *os.Root
	bases  []string    // the folder's absolute names: as given, and with links resolved
	write  *sync.Mutex // held from reading a file to replacing it
	tools  []tool.Tool

	outside string // the folder, where it is not the workspace but one outside; see enter
}

// timeout bounds one call. Searching is what may need it.
const timeout = time.Minute

// Open opens the folder. The caller closes the workspace when no tool of it is
// running; calls after that are refused.
func Open(c Config) (*Workspace, error) {
	if c.Dir == "" {
		return nil, &session.InvalidError{Field: "Config.Dir", Reason: "is missing"}
	}
	if c.MaxResult <= 0 {
		c.MaxResult = 64 << 10
	}
	if c.MaxFile <= 0 {
		c.MaxFile = 8 << 20
	}
	given, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	root, err := os.OpenRoot(resolved)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	w := &Workspace{config: c, root: root, bases: []string{given, resolved}, write: &sync.Mutex{}}
	if err := w.makeTools(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return w, nil
}

func (w *Workspace) makeTools() error {
	makers := []func() (tool.Tool, error){w.readTool, w.listTool, w.findTool, w.searchTool}
	if !w.config.ReadOnly {
		makers = append(makers, w.writeTool, w.editTool, w.moveTool, w.deleteTool)
	}
	for _, newTool := range makers {
		t, err := newTool()
		if err != nil {
			return err
		}
		w.tools = append(w.tools, t)
	}
	return nil
}

// Tools returns file_read, file_list, file_find and file_search, and unless the
// workspace is read-only file_write, file_edit, file_move and file_delete.
func (w *Workspace) Tools() []tool.Tool { return slices.Clone(w.tools) }

// Close closes the folder.
func (w *Workspace) Close() error { return w.root.Close() }

// local returns a path relative to the root. An absolute path may lead into the
// workspace.
func (w *Workspace) local(path string) (string, error) {
	switch {
	case path == "":
		return "", &session.InvalidError{Field: "path", Reason: "is empty"}
	case strings.ContainsRune(path, 0):
		return "", &session.InvalidError{Field: "path", Reason: fmt.Sprintf("%q has a NUL in it", path)}
	}
	native := filepath.FromSlash(path)
	if filepath.IsAbs(native) {
		for _, base := range w.bases {
			if rel, err := filepath.Rel(base, native); err == nil && filepath.IsLocal(rel) {
				return rel, nil
			}
		}
	} else if clean := filepath.Clean(native); filepath.IsLocal(clean) {
		return clean, nil
	}
	return "", &session.InvalidError{Field: "path", Reason: fmt.Sprintf("%q is outside the workspace %s", path, w.bases[0])}
}

// maxLinks bounds how many links lead from a name to a file.
const maxLinks = 16

// followLinks follows links from a local name to where they end, which need not
// exist. A file is replaced there, and the link stays.
func (w *Workspace) followLinks(name string) (string, error) {
	for range maxLinks {
		info, err := w.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", regular.ShortError(w.shown(name), err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return name, nil
		}
		to, err := w.root.Readlink(name)
		if err != nil {
			return "", regular.ShortError(w.shown(name), err)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		if name, err = w.local(to); err != nil {
			return "", fmt.Errorf("a symbolic link leads out: %w", err)
		}
	}
	return "", fmt.Errorf("%s: too many symbolic links", w.shown(name))
}

// open opens a regular file for reading.
func (w *Workspace) open(name string) (*os.File, fs.FileInfo, error) {
	return regular.Open(w.root, name, w.shown(name))
}

// content reads a whole file, if it is not too long.
func (w *Workspace) content(name string) ([]byte, error) {
	return regular.Read(w.root, name, w.shown(name), w.config.MaxFile)
}

// slashed returns a name as results show it, the same on every system.
func slashed(name string) string { return visible(filepath.ToSlash(name)) }
