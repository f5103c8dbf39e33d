package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// artifactsUnit is the last unit of every run.
const artifactsUnit = "artifacts"

// output is where artifacts go.
type output struct {
	dir   string
	force bool
}

// file is an artifact that is ready to be written.
type file struct {
	path string // absolute
	data []byte
}

// precheck refuses, before any model is asked, what can be seen to go wrong
// at the end.
func (r *run) precheck(out output) error {
	for i, a := range r.spec.Outputs.Artifacts {
		if template.HasDelimiters(a.Path) {
			continue
		}
		path, err := out.place(a.Path)
		if err == nil {
			err = out.check(file{path: path}, nil)
		}
		if err != nil {
			return &RunError{Kind: KindArtifact, Err: fmt.Errorf("/outputs/artifacts/%d/path: %w", i, err)}
		}
	}
	return nil
}

// complete writes the artifacts and commits the end of the run.
func (x *runner) complete(ctx context.Context, r *run, out output, p program, end final, trace string) error {
	files, err := r.artifacts(out, p, end, trace)
	if err != nil {
		return &RunError{Kind: KindArtifact, Unit: artifactsUnit, Err: err}
	}
	own := x.hold.Session().Workflow().Artifacts
	for _, f := range files {
		if err := out.check(f, own); err != nil {
			return &RunError{Kind: KindArtifact, Unit: artifactsUnit, Err: err}
		}
	}
	changes := []session.Change{session.UnitFinished{Unit: artifactsUnit, Result: []byte(`{"tokens":0}`), Seconds: x.seconds()}}
	for _, f := range files {
		if err := f.write(r.id); err != nil {
			return &RunError{Kind: KindArtifact, Unit: artifactsUnit, Err: err}
		}
		changes = append(changes, session.ArtifactWritten{Path: f.path, SHA256: spec.Hash(f.data)})
		x.wrote = append(x.wrote, f.path)
	}
	return x.commit(ctx, r, artifactsUnit, "workflow.complete", StatusCompleted, "", changes...)
}

// artifacts renders all paths and contents.
func (r *run) artifacts(out output, p program, end final, trace string) ([]file, error) {
	scope := r.scopeWith(p.scope())
	last := template.Scope{"last_response": template.Str(end.text), "TRACE": template.Str(trace)}
	if kind := r.spec.Pattern.Type; kind == spec.EvaluatorPattern || kind == spec.GraphPattern {
		scope["cumulative_tokens"] = template.Int(r.index.words())
	}
	if r.spec.Pattern.Type == spec.GraphPattern {
		scope["name"], scope["timestamp"] = template.Str(r.spec.Name), template.Str(r.endedAt())
	}
	for name, v := range last {
		if _, taken := scope[name]; !taken {
			scope[name] = v
		}
	}
	var files []file
	for i, a := range r.spec.Outputs.Artifacts {
		pointer := fmt.Sprintf("/outputs/artifacts/%d", i)
		path, err := r.render(pointer+"/path", a.Path, scope)
		if err != nil {
			return nil, err
		}
		if path, err = out.place(path); err != nil {
			return nil, fmt.Errorf("%s/path: %w", pointer, err)
		}
		text, err := r.render(pointer+"/from", a.From, scope)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(files, func(f file) bool { return f.path == path }) {
			return nil, fmt.Errorf("%s/path: %s is written twice", pointer, path)
		}
		files = append(files, file{path, []byte(text)})
	}
	return files, nil
}

// endedAt returns when the last unit finished, the same however often artifacts
// are written.
func (r *run) endedAt() string {
	if n := len(r.index.finished); n > 0 {
		return iso8601(r.index.finished[n-1].at)
	}
	return ""
}

// place returns where an artifact goes: below the output directory, whatever its
// name.
func (o output) place(name string) (string, error) {
	if name == "" || filepath.IsAbs(name) || strings.HasPrefix(name, "/") || strings.HasPrefix(name, `\`) {
		return "", fmt.Errorf("%q is not a relative path", name)
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return "", err
	}
	path := dir
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		switch part {
		case "..":
			return "", fmt.Errorf("%q leads out of the output directory", name)
		case "", ".": // they name no folder
		default:
			path = filepath.Join(path, safeName(part))
		}
	}
	if path == dir {
		return "", fmt.Errorf("%q names no file", name)
	}
	return path, nil
}

// safeName makes a part of a path that every file system takes.
func safeName(part string) string {
	var b strings.Builder
	under := false
	for _, c := range part {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-.", c) {
			c = '_'
		}
		if c == '_' && under {
			continue
		}
		under = c == '_'
		b.WriteRune(c)
	}
	name := strings.Trim(b.String(), "._")
	if utf8.RuneCountInString(name) > 100 {
		name = strings.Trim(string([]rune(name)[:100]), "._")
	}
	if name == "" {
		return "unnamed"
	}
	return name
}

// check refuses a file that may not be written. Same content is no obstacle:
// a run that was interrupted wrote it.
func (o output) check(f file, own []string) error {
	if err := o.inside(f.path); err != nil {
		return err
	}
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link", f.path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", f.path)
	case o.force || slices.Contains(own, f.path):
		return nil
	}
	if held, err := os.ReadFile(f.path); err == nil && f.data != nil && bytes.Equal(held, f.data) {
		return nil
	}
	return fmt.Errorf("%s exists; --force replaces it", f.path)
}

// inside refuses a path whose existing folders lead out of the output
// directory.
func (o output) inside(path string) error {
	root, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	top, err := resolveLinks(root)
	if err != nil {
		return err
	}
	at, err := resolveLinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	if at != top && !strings.HasPrefix(at, strings.TrimSuffix(top, string(filepath.Separator))+string(filepath.Separator)) {
		return fmt.Errorf("%s leads out of %s", path, root)
	}
	return nil
}

// resolveLinks returns a path without links, as far as it exists.
func resolveLinks(path string) (string, error) {
	rest := ""
	for {
		found, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(found, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, err := os.Lstat(path); err == nil {
			return "", fmt.Errorf("%s is a link to nowhere", path)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return filepath.Join(path, rest), nil
		}
		rest, path = filepath.Join(filepath.Base(path), rest), parent
	}
}

// write replaces the file atomically: a reader sees the old one or all of
// the new. The same run writes it under the same temporary name: what a kill
// left there goes when it is written again.
func (f file) write(run string) (err error) {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, ".holdfast-"+spec.Hash([]byte(run + "\x00" + f.path))[:16])
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(f.data)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), f.path)
}
