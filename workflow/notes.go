package workflow

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// systemPrompt makes the prompt of an agent for its first unit in a lane.
func (x *runner) systemPrompt(r *run, agent string) string {
	made, _ := r.spec.Agents.Get(agent)
	return systemText(r.spec, agent, made.Prompt, x.lastNotes(r))
}

// lastNotes reads the last entries of the notes file. A file that cannot be read
// warns and has none.
func (x *runner) lastNotes(r *run) string {
	n := r.notes()
	if n == nil {
		return ""
	}
	path, err := x.notesPath(n)
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.warn("the notes cannot be read: %v", err)
		}
		return ""
	}
	entries := splitNotes(n.Format, string(data))
	return strings.TrimSpace(strings.Join(entries[max(0, len(entries)-n.IncludeLast):], ""))
}

// notes returns the policy of the notes file, nil where there is none.
func (r *run) notes() *spec.Notes {
	if r.spec.Context == nil {
		return nil
	}
	return r.spec.Context.Notes
}

// notesPath returns where the notes file lies: below the working directory, as
// artifacts lie below theirs.
func (x *runner) notesPath(n *spec.Notes) (string, error) {
	path := filepath.Join(x.host.WorkDir, n.File)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	return path, output{dir: x.host.WorkDir}.inside(path)
}

// noteHeading begins an entry: what an agent has said may hold headings too.
var noteHeading = regexp.MustCompile(`^## \d{4}-\d\d-\d\dT`)

// splitNotes returns the entries of a notes file, whole.
func splitNotes(format, text string) []string {
	if format == "json" {
		return strings.SplitAfter(strings.TrimRight(text, "\n"), "\n")
	}
	var entries []string
	for line := range strings.Lines(text) {
		if noteHeading.MatchString(line) || len(entries) == 0 {
			entries = append(entries, "")
		}
		entries[len(entries)-1] += line
	}
	return entries
}

// noteOf makes the entry of a unit.
func (x *runner) noteOf(r *run, u unit, e *entry, input, text string) string {
	n := r.notes()
	if n == nil {
		return ""
	}
	x.calls++
	return noteText(n.Format, x.host.Now(), u.agent, cmp.Or(u.number, x.calls), input, e.toolNames(), text)
}

// addNote appends an entry to the notes file. What goes wrong is a warning.
func (x *runner) addNote(r *run, note string) {
	n := r.notes()
	if n == nil || note == "" {
		return
	}
	path, err := x.notesPath(n)
	if err == nil {
		err = appendNotes(path, []string{note}, false)
	}
	if err != nil {
		r.warn("a note cannot be written: %v", err)
	}
}

// completeNotes appends the entries of finished units that the file lacks.
func (x *runner) completeNotes(r *run) {
	n := r.notes()
	if n == nil {
		return
	}
	var notes []string
	for _, e := range r.index.finished {
		if e.note != "" {
			notes = append(notes, e.note)
		}
	}
	path, err := x.notesPath(n)
	if err == nil {
		err = appendNotes(path, notes, true)
	}
	if err != nil {
		r.warn("the notes cannot be completed: %v", err)
	}
}

// appendNotes adds entries to a file under its lock, where asked only those
// that it does not hold.
func appendNotes(path string, notes []string, lacking bool) (err error) {
	if len(notes) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := lockFile(f); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	var held []byte
	if lacking {
		if held, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	for _, note := range notes {
		if bytes.Contains(held, []byte(note)) {
			continue
		}
		if _, err := f.WriteString(note); err != nil {
			return err
		}
	}
	return nil
}
