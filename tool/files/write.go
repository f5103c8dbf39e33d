package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type writeArguments struct {
	Path       string `json:"path" jsonschema:"the file, relative to the workspace"`
	Content    string `json:"content" jsonschema:"the whole new content"`
	CreateDirs bool   `json:"create_dirs,omitempty" jsonschema:"make the folders on the way that do not exist"`
}

func (w *Workspace) writeTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_write", Effects: tool.Write, Nature: tool.Idempotent, Timeout: timeout, Diff: previewed(w.writtenTexts),
		Description: "Write a whole file of the workspace, new or instead of what was there. Use file_edit to change a part.",
	}, w.writeFile)
}

func (w *Workspace) writeFile(ctx context.Context, in writeArguments) (string, error) {
	w, name, leave, err := w.enterChangeable(ctx, in.Path)
	if err != nil {
		return "", err
	}
	defer leave()
	if size := int64(len(in.Content)); size > w.config.MaxFile {
		return "", &regular.TooLongError{Name: w.shown(name), Size: size, Most: w.config.MaxFile}
	}
	w.write.Lock()
	defer w.write.Unlock()
	if name, err = w.followLinks(name); err != nil {
		return "", err
	}
	if in.CreateDirs {
		if err := w.root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return "", regular.ShortError(w.shown(name), err)
		}
	}
	replaced, err := regular.Replace(w.root, name, w.shown(name), []byte(in.Content))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !in.CreateDirs:
		return "", fmt.Errorf("%w; create_dirs makes missing folders", err)
	case err != nil:
		return "", err
	case replaced:
		return fmt.Sprintf("Wrote %d bytes to %s, instead of what was there.", len(in.Content), w.shown(name)), nil
	}
	return fmt.Sprintf("Wrote %d bytes to the new file %s.", len(in.Content), w.shown(name)), nil
}

// enterChangeable is enter for a path that is to be changed: any but the
// workspace itself.
func (w *Workspace) enterChangeable(ctx context.Context, path string) (*Workspace, string, func(), error) {
	in, name, leave, err := w.enter(ctx, path, false)
	if err == nil && name == "." {
		return nil, "", leave, &session.InvalidError{Field: "path", Reason: fmt.Sprintf("%q is the workspace itself", path)}
	}
	return in, name, leave, err
}

type moveArguments struct {
	From      string `json:"from" jsonschema:"the file or folder, relative to the workspace"`
	To        string `json:"to" jsonschema:"its new path, with its new name"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace a file that is there already"`
}

func (w *Workspace) moveTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_move", Effects: tool.Read | tool.Write, Nature: tool.Once, Timeout: timeout,
		Description: "Move or rename a file or folder of the workspace.",
	}, w.move)
}

func (w *Workspace) move(ctx context.Context, in moveArguments) (string, error) {
	there, to, leaveThere, err := w.enterChangeable(ctx, in.To)
	if err != nil {
		return "", err
	}
	defer leaveThere()
	w, from, leave, err := w.enterChangeable(ctx, in.From)
	if err != nil {
		return "", err
	}
	defer leave()
	w.write.Lock()
	defer w.write.Unlock()
	if _, err := w.root.Lstat(from); err != nil {
		return "", regular.ShortError(w.shown(from), err)
	}
	switch info, err := there.root.Lstat(to); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", regular.ShortError(there.shown(to), err)
	case info.IsDir():
		return "", fmt.Errorf("%s is a folder: say the new name too, such as %s", there.shown(to), there.shown(filepath.Join(to, filepath.Base(from))))
	case !in.Overwrite:
		return "", fmt.Errorf("%s is there already; overwrite replaces it", there.shown(to))
	}
	if err := w.rename(from, there, to); err != nil {
		return "", regular.ShortError(w.shown(from)+" to "+there.shown(to), err)
	}
	return fmt.Sprintf("Moved %s to %s.", w.shown(from), there.shown(to)), nil
}

// rename moves within one folder at once. Between the workspace and a folder
// outside a file is copied, durably, and then removed.
func (w *Workspace) rename(from string, there *Workspace, to string) error {
	if w == there {
		return w.root.Rename(from, to)
	}
	content, err := w.content(from)
	if err != nil {
		return err
	}
	if _, err := regular.Replace(there.root, to, there.shown(to), content); err != nil {
		return err
	}
	return w.root.Remove(from)
}

type deleteArguments struct {
	Path      string `json:"path" jsonschema:"the file or folder, relative to the workspace"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"delete a folder with everything in it"`
}

func (w *Workspace) deleteTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_delete", Effects: tool.Delete, Nature: tool.Once, Timeout: timeout,
		Description: "Delete a file, a link or an empty folder of the workspace, or with recursive a folder and all that is in it. It cannot be undone.",
	}, w.remove)
}

func (w *Workspace) remove(ctx context.Context, in deleteArguments) (string, error) {
	w, name, leave, err := w.enterChangeable(ctx, in.Path)
	if err != nil {
		return "", err
	}
	defer leave()
	w.write.Lock()
	defer w.write.Unlock()
	info, err := w.root.Lstat(name)
	if err != nil {
		return "", regular.ShortError(w.shown(name), err)
	}
	if in.Recursive && info.IsDir() {
		err = w.root.RemoveAll(name)
	} else {
		err = w.root.Remove(name)
	}
	if err != nil {
		return "", regular.ShortError(w.shown(name), err)
	}
	return fmt.Sprintf("Deleted %s.", w.shown(name)), nil
}
