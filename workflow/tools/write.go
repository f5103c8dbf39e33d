package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/regular"
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
	set, err := findCharset(in.Encoding)
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
	root, name, err := b.folders.root(in.Path, true)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // the file is durable already
	if name == "." {
		return "", &session.InvalidError{Field: "path", Reason: displayPath(in.Path) + " is a directory"}
	}
	if in.CreateDirs {
		if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return "", regular.ShortError(displayPath(in.Path), err)
		}
	}
	_, err = regular.Replace(root, name, displayPath(in.Path), data)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !in.CreateDirs:
		return "", fmt.Errorf("%w; create_dirs makes missing directories", err)
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("Successfully wrote %d characters to %s", utf8.RuneCountInString(in.Content), displayPath(in.Path)), nil
}
