package strands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// SpecFile is a copy of a file that the spec refers to, and where it lies: with
// slashes, below the session directory.
type SpecFile struct {
	spec.File
	Place string
}

// specFile is an entry of spec_files.json.
type specFile struct {
	As     string        `json:"as"`
	File   string        `json:"file"`
	SHA256 string        `json:"sha256"`
	Kind   spec.FileKind `json:"kind"`
}

// SaveSpecFiles keeps copies of files that the spec refers to. A copy lies where
// the spec, read in the session directory, looks for it, if that is a place
// below it that nothing else has; else under spec_files.
func (d Dir) SaveSpecFiles(files []spec.File) ([]SpecFile, error) {
	saved, err := d.saveSpecFiles(files)
	if err != nil {
		return nil, fmt.Errorf("save files of the spec of session %s: %w", d.ID(), err)
	}
	return saved, nil
}

func (d Dir) saveSpecFiles(files []spec.File) ([]SpecFile, error) {
	if err := d.make(); err != nil {
		return nil, err
	}
	saved := placeFiles(files)
	index := make([]specFile, 0, len(saved))
	for _, f := range saved {
		if err := d.writeCopy(f); err != nil {
			return nil, err
		}
		index = append(index, specFile{As: f.As, File: f.Place, SHA256: f.SHA256, Kind: f.Kind})
	}
	data, err := encodeASCII(index)
	if err != nil {
		return nil, err
	}
	return saved, update(d.file(specFilesFile), data)
}

// writeCopy refuses to leave the session directory through a link.
func (d Dir) writeCopy(f SpecFile) error {
	place := filepath.FromSlash(f.Place)
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written through it
	if old, err := root.ReadFile(place); err == nil && bytes.Equal(old, f.Data) {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(place), dirMode); err != nil {
		return err
	}
	if err := replace(d.file(place), f.Data); err != nil {
		return err
	}
	for dir := filepath.Dir(place); dir != "."; dir = filepath.Dir(dir) {
		if err := syncDir(filepath.Dir(d.file(dir))); err != nil {
			return err
		}
	}
	return nil
}

// placeFiles gives each file its hash and its place.
func placeFiles(files []spec.File) []SpecFile {
	saved := make([]SpecFile, len(files))
	owner := map[string]string{} // by place in lower case: the hash of who has it
	for i, file := range files {
		file.SHA256 = spec.Hash(file.Data)
		f := SpecFile{file, specFilesDir + "/" + file.SHA256}
		if natural, ok := naturalPlace(f.As); ok && isFree(owner, natural, f.SHA256) {
			f.Place = natural
		}
		owner[strings.ToLower(f.Place)] = f.SHA256
		saved[i] = f
	}
	return saved
}

// naturalPlace returns where below the session directory a path leads, if it is safe
// to put a file there.
func naturalPlace(as string) (string, bool) {
	clean := path.Clean(as)
	if as == "" || clean == "." || strings.ContainsAny(as, "\\:\x00") || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", false
	}
	first, _, _ := strings.Cut(strings.ToLower(clean), "/")
	switch first {
	case sessionFile, patternFile, snapshotFile, specFilesFile, specFilesDir, agentsDir, logDir:
		return "", false
	}
	for part := range strings.SplitSeq(clean, "/") {
		if strings.HasPrefix(part, ".") { // .lock, and temporary files
			return "", false
		}
	}
	return clean, true
}

// isFree reports a place that is neither another file's, nor above or below one.
func isFree(owner map[string]string, place, hash string) bool {
	place = strings.ToLower(place)
	for taken, by := range owner {
		if taken == place && by != hash || strings.HasPrefix(taken, place+"/") || strings.HasPrefix(place, taken+"/") {
			return false
		}
	}
	return true
}

// SpecFiles reads the copies; none where there is no list of them. A list that
// cannot be used, and a copy that is missing or not what it was, is a
// session.CorruptError.
func (d Dir) SpecFiles() ([]SpecFile, error) {
	data, err := os.ReadFile(d.file(specFilesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read files of the spec of session %s: %w", d.ID(), err)
	}
	index, err := decodeSpecFiles(data)
	if err != nil {
		return nil, corruptError(d.ID(), d.file(specFilesFile), err)
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, fmt.Errorf("read files of the spec of session %s: %w", d.ID(), err)
	}
	defer func() { _ = root.Close() }() // it was only read from
	files := make([]SpecFile, 0, len(index))
	for _, entry := range index {
		content, err := root.ReadFile(filepath.FromSlash(entry.File))
		if err != nil || spec.Hash(content) != entry.SHA256 {
			return nil, &session.CorruptError{ID: d.ID(), Path: d.file(entry.File), Reason: "is not the copy that " + specFilesFile + " speaks of"}
		}
		files = append(files, SpecFile{spec.File{As: entry.As, Kind: entry.Kind, SHA256: entry.SHA256, Data: content}, entry.File})
	}
	return files, nil
}

func decodeSpecFiles(data []byte) ([]specFile, error) {
	raw, err := compactFile(data)
	if err != nil {
		return nil, err
	}
	var index []specFile
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, inField("list", err)
	}
	if index == nil {
		return nil, &session.InvalidError{Field: "list", Reason: "is missing"}
	}
	for _, entry := range index {
		switch {
		case !filepath.IsLocal(filepath.FromSlash(entry.File)):
			return nil, &session.InvalidError{Field: "file", Reason: fmt.Sprintf("%q lies outside the session", entry.File)}
		case !slices.Contains(spec.FileKinds(), entry.Kind):
			return nil, &session.InvalidError{Field: "kind", Reason: fmt.Sprintf("%q is unknown", entry.Kind)}
		}
	}
	return index, nil
}
