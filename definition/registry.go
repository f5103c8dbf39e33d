package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
)

// Source is a directory of definition files. Files and directories whose name
// begins with a dot are not looked at, nor are files with another extension.
type Source struct {
	Dir       string
	Recursive bool
}

// BadFile is a file, or a directory, that could not be loaded.
type BadFile struct {
	Path string
	Err  error
}

// Error names the file and the reason.
func (b BadFile) Error() string {
	if text := b.Err.Error(); strings.Contains(text, b.Path) {
		return text
	}
	return b.Path + ": " + b.Err.Error()
}

// Unwrap is the reason.
func (b BadFile) Unwrap() error { return b.Err }

// Registry has definitions by name. It is safe for concurrent use; what it
// returns is the caller's own.
type Registry struct {
	sources []Source
	bad     []BadFile

	mu        sync.RWMutex // guards known and contested
	known     map[string]loaded
	contested map[string]error // names that several files of one source claim
}

type loaded struct {
	path string
	dir  string // of the source
	def  session.Definition
}

// NewRegistry loads sources in their order: a definition of a later one
// replaces that of the same name in an earlier one. A bad file is listed by
// Problems and keeps no other from being loaded. A missing directory is empty.
// Two files of one source with the same name are both bad, and the name is
// then refused by Get whatever earlier sources say.
func NewRegistry(sources ...Source) *Registry {
	r := &Registry{sources: slices.Clone(sources), known: map[string]loaded{}, contested: map[string]error{}}
	for _, source := range sources {
		r.load(source)
	}
	return r
}

func (r *Registry) load(source Source) {
	files := finder{recursive: source.Recursive, visited: map[string]bool{}}
	files.find(source.Dir)
	r.bad = append(r.bad, files.bad...)
	byName := map[string][]loaded{}
	for _, path := range files.paths {
		d, err := Load(path)
		if err != nil {
			r.bad = append(r.bad, BadFile{Path: path, Err: err})
			continue
		}
		byName[d.Name] = append(byName[d.Name], loaded{path: path, dir: source.Dir, def: d})
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		claims := byName[name]
		delete(r.contested, name)
		if len(claims) == 1 {
			r.known[name] = claims[0]
			continue
		}
		delete(r.known, name)
		r.contested[name] = r.reportConflict(name, claims)
	}
}

// reportConflict lists every file that claims a name as bad and returns the
// error that Get gives for the name.
func (r *Registry) reportConflict(name string, claims []loaded) error {
	paths := make([]string, len(claims))
	for i, c := range claims {
		paths[i] = fmt.Sprintf("%q", c.path)
	}
	err := &session.DefinitionError{Source: name, Problems: []session.Problem{{
		Field: "name", Message: "is claimed by " + strings.Join(paths, " and "),
	}}}
	for _, c := range claims {
		r.bad = append(r.bad, BadFile{Path: c.path, Err: err})
	}
	return err
}

// Get is the definition of that name. A miss is a session.NotFoundError that
// lists the names there are.
func (r *Registry) Get(name string) (session.Definition, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if l, ok := r.known[name]; ok {
		return l.def.Clone(), nil
	}
	if err, ok := r.contested[name]; ok {
		return session.Definition{}, err
	}
	return session.Definition{}, &session.NotFoundError{What: "definition", ID: name, Available: r.names()}
}

// Names lists the definitions, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.names()
}

func (r *Registry) names() []string {
	names := slices.AppendSeq(make([]string, 0, len(r.known)), maps.Keys(r.known))
	slices.Sort(names)
	return names
}

// All is every definition, sorted by name.
func (r *Registry) All() []session.Definition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]session.Definition, 0, len(r.known))
	for _, name := range r.names() {
		all = append(all, r.known[name].def.Clone())
	}
	return all
}

// Path is the file a definition was loaded from or saved to, "" where there is none.
func (r *Registry) Path(name string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.known[name].path
}

// Problems lists the files that NewRegistry could not load, in the order it
// met them. Save does not change it.
func (r *Registry) Problems() []BadFile { return slices.Clone(r.bad) }

// Save writes a definition into the directory of the last source, as its name
// with the extension ext, and Get finds it from then on. With overwrite, a
// file of that directory that already has this definition is replaced where
// it is, in its own format; without it, that is a session.InvalidError. The
// directory is made if it is missing.
func (r *Registry) Save(d session.Definition, ext string, overwrite bool) (path string, err error) {
	if len(r.sources) == 0 {
		return "", &session.InvalidError{Field: "registry", Reason: "has no directory to save to"}
	}
	if _, err := Encode(d, ext); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err, ok := r.contested[d.Name]; ok {
		return "", err
	}
	dir := r.sources[len(r.sources)-1].Dir
	path = filepath.Join(dir, d.Name+strings.ToLower(ext))
	if l, ok := r.known[d.Name]; ok && l.dir == dir {
		if path = l.path; !overwrite {
			return "", &session.InvalidError{Field: "name", Reason: fmt.Sprintf("%q is defined in %q, which is not overwritten unless asked", d.Name, path)}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("save definition %q: %w", d.Name, err)
	}
	if err := Save(path, d, overwrite); err != nil {
		return "", err
	}
	saved, err := Load(path) // as the next registry will see it
	if err != nil {
		return "", err
	}
	r.known[d.Name] = loaded{path: path, dir: dir, def: saved}
	return path, nil
}

// finder lists definition files in sorted order. It follows links and reads
// each directory once, so that a loop of links ends.
type finder struct {
	recursive bool
	visited   map[string]bool
	paths     []string
	bad       []BadFile
}

func (f *finder) find(dir string) {
	target, err := filepath.EvalSymlinks(dir)
	if err == nil && f.visited[target] {
		return
	}
	f.visited[target] = true
	entries, err := os.ReadDir(dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		f.bad = append(f.bad, BadFile{Path: dir, Err: err})
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		_, wrong := extension(path)
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			if f.recursive {
				f.find(path)
			}
		case wrong == nil: // a file that cannot be read is reported when it is loaded
			f.paths = append(f.paths, path)
		}
	}
}
