// Package definition reads and writes definition files, which describe an
// agent in JSON, YAML or Markdown, and keeps a registry of them by name.
//
// Reading is strict: nothing is guessed, converted or skipped. A file with
// several mistakes is refused once, with all of them and their lines.
package definition

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// MaxSize is the most bytes a definition file may have.
const MaxSize = document.MaxSize

// Extensions lists the kinds of definition files. Case does not matter.
func Extensions() []string { return []string{".json", ".yaml", ".yml", ".md"} }

// Parse reads one definition. The extension of source tells the format;
// source also names the file in errors and is not opened.
//
// An unknown extension is a session.InvalidError. A credential is a
// session.SecretError that names its key and never its value. Everything else
// wrong with the file is one session.DefinitionError.
func Parse(source string, data []byte) (session.Definition, error) {
	ext, err := extension(source)
	if err != nil {
		return session.Definition{}, err
	}
	r := &reader{source: source, part: "file"}
	if ext == ".md" {
		if data, err = r.splitMarkdown(data); err != nil {
			return session.Definition{}, r.refuse(err.Error())
		}
	}
	root, err := document.Parse(data, document.Options{JSON: ext == ".json", PlainNumbers: true})
	if err != nil {
		return session.Definition{}, r.refuse(err.Error())
	}
	return r.read(root)
}

// Load reads the definition file at path. Errors are those of Parse, and of
// reading the file.
func Load(path string) (session.Definition, error) {
	if _, err := extension(path); err != nil {
		return session.Definition{}, err
	}
	data, err := document.ReadFile(path)
	switch {
	case errors.Is(err, document.ErrTooLarge):
		return session.Definition{}, (&reader{source: path, part: "file"}).refuse(err.Error())
	case err != nil:
		return session.Definition{}, fmt.Errorf("read definition: %w", err)
	}
	return Parse(path, data)
}

func extension(path string) (string, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if slices.Contains(Extensions(), ext) {
		return ext, nil
	}
	return "", &session.InvalidError{Field: "definition file", Reason: fmt.Sprintf(
		"%q does not end in %s", path, strings.Join(Extensions(), ", "))}
}
