package spec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// MaxSize is how large a spec, or a file it refers to, may be.
const MaxSize = 10 << 20

// Loader reads specs. Its zero value is what a run uses.
type Loader struct {
	// Lenient makes templates and conditions that do not compile warnings. Those
	// shown to a person always are: such a text never fails a run.
	Lenient bool
	// AllowPrivate are hosts with their ports, host:port, that HTTP executors
	// may reach although they are not public.
	AllowPrivate []string
}

// Load is Loader.Load with the zero Loader.
func Load(path string, vars Map[string]) (*Spec, error) { return Loader{}.Load(path, vars) }

// Load reads the spec in a file and the agents it refers to, and puts the
// variables among its inputs. A spec that cannot be taken is a *session.SpecError that
// lists everything wrong with it; a file that cannot be read is the error of
// the file system. A required input without a value is no error here: see
// Spec.Missing.
func (l Loader) Load(path string, vars Map[string]) (*Spec, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	if err := checkExtension(path); err != nil {
		return nil, &session.SpecError{File: path, Reason: err.Error()}
	}
	data, err := readFile(path)
	if errors.Is(err, errTooLarge) {
		return nil, &session.SpecError{File: path, Reason: err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	return l.Parse(Source{Path: path, Data: data, Read: readFile}, vars)
}

// Source is a spec that has been read. Path tells the format by its extension
// and is where relative paths start. Read reads a file the spec refers to;
// nil refuses all of them.
type Source struct {
	Path string
	Data []byte
	Read func(path string) ([]byte, error)

	snapshot *Snapshot // where it came from, if it did
}

// Parse is Load for a spec at hand.
func (l Loader) Parse(src Source, vars Map[string]) (*Spec, error) {
	refuse := func(err error) error { return &session.SpecError{File: src.Path, Reason: err.Error()} }
	root, err := parse("", src.Path, src.Data)
	if err != nil {
		return nil, refuse(err)
	}
	if root.kind != object {
		return nil, refuse(fmt.Errorf("is %s, not a mapping", root.kind))
	}
	s := &Spec{source: src}
	r := &reader{guard: l.guard}
	if src.snapshot != nil { // checked when it was made, and again at each request
		r.guard = func(string) error { return nil }
	}
	s.resolve(r, root)
	if err := r.verdict(src.Path); err != nil {
		return nil, err
	}
	specField(s)(r, "", root)
	if err := r.verdict(src.Path); err != nil {
		return nil, err
	}
	s.fill(vars)
	l.compile(s, r)
	s.doubts()
	if err := r.verdict(src.Path); err != nil {
		return nil, err
	}
	return s, nil
}

// Path is the file the spec was read from.
func (s *Spec) Path() string { return s.source.Path }

// compile tries every template and condition.
func (l Loader) compile(s *Spec, r *reader) {
	for _, t := range s.Texts() {
		err := t.compile()
		switch {
		case err == nil:
		case l.Lenient || t.Kind == QuestionText:
			s.warn(t.Pointer, "%v", err)
		default:
			r.problemAt(t.Pointer, "", 0, "%v", err)
		}
	}
}

var errTooLarge = fmt.Errorf("is larger than %d MiB", MaxSize>>20)

// readFile reads a regular file of a bearable size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = errTooLarge
	}
	return data, err
}

func checkExtension(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".yaml", ".yml", ".json":
		return nil
	default:
		return fmt.Errorf("has the extension %q, not .yaml, .yml or .json", ext)
	}
}

// parse reads a document into a tree. File is how errors call it.
func parse(file, path string, data []byte) (*node, error) {
	if err := checkExtension(path); err != nil {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, errTooLarge
	}
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	doc := strings.TrimPrefix(string(data), "\ufeff")
	if strings.ContainsRune(doc, 0) {
		return nil, errors.New("has a NUL character")
	}
	if strings.EqualFold(filepath.Ext(path), ".json") {
		return parseJSON(file, []byte(doc))
	}
	return parseYAML(file, doc)
}
