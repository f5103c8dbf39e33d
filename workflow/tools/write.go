package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type writeArguments struct {
	Path       string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	Content    string `json:"content" jsonschema:"the whole new content"`
	Encoding   string `json:"encoding,omitempty" jsonschema:"utf-8 where it is left out"`
	CreateDirs bool   `json:"create_dirs,omitempty" jsonschema:"make the directories on the way that do not exist"`
}

func (b *Box) writeTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		// Writing the same content twice is as writing it once.
		Name: "file_write", Nature: tool.Idempotent,
		Description: "Write a text file, new or instead of what was there.",
	}, b.writeFile)
}

func (b *Box) writeFile(_ context.Context, in writeArguments) (string, error) {
	set, err := charsetOf(in.Encoding)
	if err != nil {
		return "", err
	}
	data, err := set.encode(in.Content)
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", tooLong(in.Path)
	}
	at, err := b.folders.find(in.Path, true)
	if err != nil {
		return "", err
	}
	if at.name == "." {
		return "", &session.InvalidError{Field: "path", Reason: shown(in.Path) + " is a directory"}
	}
	root, err := os.OpenRoot(at.folder)
	if err != nil {
		return "", about(in.Path, err)
	}
	defer root.Close() //nolint:errcheck // the file is durable already
	if in.CreateDirs {
		if err := root.MkdirAll(filepath.Dir(at.name), 0o777); err != nil {
			return "", about(in.Path, err)
		}
	}
	err = replace(root, in.Path, at.name, data)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !in.CreateDirs:
		return "", fmt.Errorf("%w; create_dirs makes missing directories", err)
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("Successfully wrote %d characters to %s", utf8.RuneCountInString(in.Content), shown(in.Path)), nil
}

// replace puts content under a name at once: whoever opens the file sees the
// old content or the new, and after a crash it is one of them. Permissions
// stay. What a crash leaves behind is a file called .holdfast-….tmp.
func replace(root *os.Root, path, name string, content []byte) error {
	mode := fs.FileMode(0)
	switch info, err := root.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		return notAFile(path, info)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return about(path, err)
	}
	temporary := filepath.Join(filepath.Dir(name), ".holdfast-"+rand.Text()+".tmp")
	if err := writeNew(root, temporary, content, mode); err != nil {
		return about(path, err)
	}
	if err := root.Rename(temporary, name); err != nil {
		return errors.Join(about(path, err), root.Remove(temporary))
	}
	// The name is durable when its directory is. Not every system can do that.
	if dir, err := root.Open(filepath.Dir(name)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// writeNew writes a durable file that was not there; mode 0 is the system's
// choice. On an error there is none.
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
