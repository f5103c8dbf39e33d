package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// MaxSize is how large a spec, or a file it refers to, may be.
const MaxSize = document.MaxSize

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
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	if info.IsDir() {
		return nil, &session.SpecError{File: path, Reason: "is a folder; name a spec in it"}
	}
	if err := checkExtension(path); err != nil {
		return nil, &session.SpecError{File: path, Reason: err.Error()}
	}
	data, err := document.ReadFile(path)
	if errors.Is(err, document.ErrTooLarge) {
		return nil, &session.SpecError{File: path, Reason: err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	return l.Parse(Source{Path: path, Data: data, Read: document.ReadFile}, vars)
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
	if root.Kind != document.Map {
		return nil, refuse(fmt.Errorf("is %s, not a map", root.Kind))
	}
	s := &Spec{source: src}
	allowed := l.guard
	if src.snapshot != nil { // checked when it was made, and again at each request
		allowed = func(string) error { return nil }
	}
	r := &document.Reader{}
	top := r.Root(root)
	s.resolve(top)
	specField(s, allowed)(top)
	if err := specError(src.Path, r.Problems()); err != nil {
		return nil, err
	}
	s.fill(vars)
	s.expand(r)
	l.compile(s, r)
	s.addWarnings()
	if err := specError(src.Path, r.Problems()); err != nil {
		return nil, err
	}
	return s, nil
}

func specError(file string, problems []document.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	e := &session.SpecError{File: file, Pointer: problems[0].Path, Reason: problems[0].Message()}
	for _, p := range problems[1:] {
		e.Also = append(e.Also, session.SpecProblem{Pointer: p.Path, Reason: p.Message()})
	}
	return e
}

// Path is the file the spec was read from.
func (s *Spec) Path() string { return s.source.Path }

// compile tries every template and condition.
func (l Loader) compile(s *Spec, r *document.Reader) {
	for _, t := range s.Texts() {
		err := t.compile()
		switch {
		case err == nil:
		case l.Lenient || t.Kind == QuestionText:
			s.warn(t.Pointer, "%v", err)
		default:
			r.Report(document.Problem{Path: t.Pointer, Reason: err.Error()})
		}
	}
}

func checkExtension(path string) error {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".yaml", ".yml", ".json":
		return nil
	default:
		return fmt.Errorf("has the extension %q, not .yaml, .yml or .json", ext)
	}
}

// parse reads a document into a tree. File is how problems name it.
func parse(file, path string, data []byte) (*document.Node, error) {
	if err := checkExtension(path); err != nil {
		return nil, err
	}
	return document.Parse(data, document.Options{File: file, JSON: strings.EqualFold(filepath.Ext(path), ".json")})
}
