package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

const (
	// MaxSnapshot is how large a spec and all it refers to may be together.
	MaxSnapshot = 16 << 20
	// maxVisits is how many files and folders of a skill are looked at.
	maxVisits = 10_000
)

// FileKind is what a spec needs a file for.
type FileKind string

// The kinds of files.
const (
	RefFile    FileKind = "ref"    // an agent
	SchemaFile FileKind = "schema" // an agent's input or output
	SkillFile  FileKind = "skill"  // a text of a skill
	DataFile   FileKind = "data"   // the items of a ForEach
)

// FileKinds lists them.
func FileKinds() []FileKind { return []FileKind{RefFile, SchemaFile, SkillFile, DataFile} }

// File is a copy of a file a spec refers to.
type File struct {
	As     string   `json:"as"` // the path from the spec's folder, with slashes
	Kind   FileKind `json:"kind"`
	SHA256 string   `json:"sha256"`
	Data   []byte   `json:"data"`
}

func newFile(as string, kind FileKind, data []byte) File {
	return File{As: filepath.ToSlash(as), Kind: kind, SHA256: Hash(data), Data: data}
}

// Snapshot is a spec with a copy of everything it refers to: a session that
// keeps it needs no file again.
type Snapshot struct {
	Path   string `json:"path"` // absolute
	SHA256 string `json:"sha256"`
	Spec   []byte `json:"spec"`
	Files  []File `json:"files,omitempty"`

	// Absent are the schemas and skills that are not there, as they are written.
	Absent []string `json:"-"`
}

// Hash is the lower-case hex SHA-256 of a file's bytes.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// HashFile is the Hash of a file.
func HashFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("hash spec: %w", err)
	}
	return Hash(data), nil
}

// Snapshot copies the spec and the files it refers to: agents, schemas, and
// every .md of each skill. Agents are as they were when the spec was loaded.
// A schema or a skill that is not there is left out, for nothing else depends
// on it. One that cannot be read, or more than MaxSnapshot in all, is a
// *session.SpecError. A spec that was loaded from a snapshot gives that one
// back.
func (s *Spec) Snapshot() (*Snapshot, error) {
	if s.source.snapshot != nil {
		return s.source.snapshot, nil
	}
	c := collector{spec: s, snap: &Snapshot{
		Path: s.source.Path, SHA256: Hash(s.source.Data), Spec: s.source.Data, Files: slices.Clone(s.refs),
	}}
	c.size = len(s.source.Data)
	for _, f := range s.refs {
		c.size += len(f.Data)
	}
	for _, a := range s.Agents {
		p := document.Pointer("/agents", a.Name)
		if err := c.schema(p+"/input_schema", a.Value.InputSchema); err != nil {
			return nil, err
		}
		if err := c.schema(p+"/output_schema", a.Value.OutputSchema); err != nil {
			return nil, err
		}
	}
	for i, skill := range s.Skills {
		if err := c.skill(document.Pointer("/skills", i, "path"), skill.Path); err != nil {
			return nil, err
		}
	}
	return c.snap, nil
}

// Source is the spec as Loader.Parse takes it. It reads the copies only.
func (snap *Snapshot) Source() Source {
	s := Spec{source: Source{Path: snap.Path}}
	copies := map[string][]byte{}
	for _, f := range snap.Files {
		copies[s.resolvePath(filepath.FromSlash(f.As))] = f.Data
	}
	return Source{Path: snap.Path, Data: snap.Spec, snapshot: snap, Read: func(path string) ([]byte, error) {
		if data, ok := copies[path]; ok {
			return data, nil
		}
		return nil, fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
	}}
}

// Stale are the files, the spec's path first, that differ from their copies.
// Those that are no longer there do not count.
func (snap *Snapshot) Stale() ([]string, error) {
	s := Spec{source: Source{Path: snap.Path}}
	var stale []string
	compare := func(shown, path, hash string) error {
		data, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("compare with the snapshot: %w", err)
		case Hash(data) != hash:
			stale = append(stale, shown)
		}
		return nil
	}
	if err := compare(snap.Path, snap.Path, snap.SHA256); err != nil {
		return nil, err
	}
	for _, f := range snap.Files {
		if err := compare(f.As, s.resolvePath(filepath.FromSlash(f.As)), f.SHA256); err != nil {
			return nil, err
		}
	}
	return stale, nil
}

// collector gathers the files of a snapshot.
type collector struct {
	spec   *Spec
	snap   *Snapshot
	size   int
	visits int
}

func (c *collector) refuse(p, format string, args ...any) error {
	return &session.SpecError{File: c.spec.source.Path, Pointer: p, Reason: fmt.Sprintf(format, args...)}
}

func (c *collector) schema(p string, schema *Schema) error {
	if schema == nil || schema.Path == "" {
		return nil
	}
	return c.add(p, schema.Path, SchemaFile)
}

// add copies one file, once.
func (c *collector) add(p, as string, kind FileKind) error {
	same := func(f File) bool { return f.As == filepath.ToSlash(as) && f.Kind == kind }
	if slices.ContainsFunc(c.snap.Files, same) {
		return nil
	}
	data, err := c.spec.read(as)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.snap.Absent = append(c.snap.Absent, as)
		return nil
	case err != nil:
		return c.refuse(p, "refers to %q, which cannot be read: %v", as, err)
	}
	if c.size += len(data); c.size > MaxSnapshot {
		return c.refuse(p, "refers to %q; with it the spec and its files are larger than %d MiB", as, MaxSnapshot>>20)
	}
	c.snap.Files = append(c.snap.Files, newFile(as, kind, data))
	return nil
}

// skill copies every text of a skill.
func (c *collector) skill(p, dir string) error {
	root := c.spec.resolvePath(dir)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == root:
			c.snap.Absent = append(c.snap.Absent, dir)
			return nil
		case err != nil:
			return c.refuse(p, "refers to %q, which cannot be read: %v", dir, err)
		}
		if c.visits++; c.visits > maxVisits {
			return c.refuse(p, "refers to %q; the skills have more than %d files and folders", dir, maxVisits)
		}
		if !d.Type().IsRegular() || !strings.EqualFold(filepath.Ext(path), ".md") {
			return nil
		}
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return c.refuse(p, "refers to %q, which cannot be read: %v", dir, err)
		}
		return c.add(p, filepath.Join(dir, inside), SkillFile)
	})
}
