// Package definition reads and writes definition files, what an agent is
// written down as JSON, YAML or Markdown, and keeps a registry of them by name.
//
// Reading is strict: nothing is guessed, coerced or skipped. A file with
// several mistakes is refused once, with all of them and the lines they stand on.
package definition

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// MaxSize is the most bytes a definition file may have.
const MaxSize = 1 << 20

// Extensions lists the kinds of definition files. Case does not matter.
func Extensions() []string { return []string{".json", ".yaml", ".yml", ".md"} }

// Parse reads one definition. The extension of source says how it is written;
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
	r := &reader{source: source, part: "file", lines: map[string]int{}}
	if problem := r.checkBytes(data); problem != "" {
		return session.Definition{}, r.refuse(problem)
	}
	data = bytes.TrimPrefix(data, []byte(bom))
	var d session.Definition
	switch ext {
	case ".json":
		err = r.json(data, &d)
	case ".md":
		err = r.markdown(string(data), &d)
	default:
		err = r.yaml(string(data), 0, &d)
	}
	if err != nil {
		return session.Definition{}, err
	}
	return d, nil
}

// Load reads the definition file at path. Errors are those of Parse, and of
// reading the file.
func Load(path string) (session.Definition, error) {
	if _, err := extension(path); err != nil {
		return session.Definition{}, err
	}
	data, err := readFile(path)
	if err != nil {
		return session.Definition{}, fmt.Errorf("read definition: %w", err)
	}
	return Parse(path, data)
}

// readFile reads a regular file, and of a large one no more than shows that
// it is too large.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening: a pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: fmt.Errorf("not a regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

func extension(path string) (string, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if slices.Contains(Extensions(), ext) {
		return ext, nil
	}
	return "", &session.InvalidError{Field: "definition file", Reason: fmt.Sprintf(
		"%q does not end in %s", path, strings.Join(Extensions(), ", "))}
}

const bom = "\ufeff"

func (r *reader) checkBytes(data []byte) string {
	switch {
	case len(data) > MaxSize:
		return fmt.Sprintf("is larger than %d bytes", MaxSize)
	case !utf8.Valid(data):
		return "is not valid UTF-8"
	}
	return ""
}

// refuse is the error of a file that has no structure to look into.
func (r *reader) refuse(reason string) error {
	return &session.DefinitionError{Source: r.source, Problems: []session.Problem{{Field: r.part, Message: reason}}}
}
