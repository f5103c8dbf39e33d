package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type readArguments struct {
	Path    string `json:"path" jsonschema:"the file, relative to the workspace"`
	From    int    `json:"from,omitempty" jsonschema:"the first line to show, counted from 1"`
	To      int    `json:"to,omitempty" jsonschema:"the last line to show"`
	Numbers bool   `json:"numbers,omitempty" jsonschema:"put its number before every line"`
}

func (w *Workspace) readTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_read", Effects: tool.Read, Nature: tool.ReadOnly, Timeout: timeout,
		Description: "Read a text file of the workspace, whole or some of its lines. A long file is cut, and the result says how to go on. Control characters are shown as pictures (␛).",
	}, w.read)
}

func (w *Workspace) read(ctx context.Context, in readArguments) (string, error) {
	if in.From < 0 || in.To < 0 || (in.To > 0 && in.To < in.From) {
		return "", &session.InvalidError{Field: "from", Reason: fmt.Sprintf("lines %d to %d are no range", in.From, in.To)}
	}
	w, name, leave, err := w.enter(ctx, in.Path, false)
	if err != nil {
		return "", err
	}
	defer leave()
	f, info, err := w.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	lines := bufio.NewReaderSize(f, 64<<10)
	if start, err := lines.Peek(sniffBytes); binary(start) {
		return "", fmt.Errorf("%s is binary, %d bytes: it cannot be shown", w.shown(name), info.Size())
	} else if err != nil && !errors.Is(err, io.EOF) {
		return "", regular.ShortError(w.shown(name), err)
	}
	s := span{from: max(in.From, 1), to: in.To, most: w.config.MaxResult}
	if err := s.read(ctx, lines); err != nil {
		return "", regular.ShortError(w.shown(name), err)
	}
	return s.text(in.Numbers), nil
}

// span collects some lines of a file.
type span struct {
	from, to, most int // to 0: until the end

	kept    []byte
	crlf    bool
	line    int  // lines seen, the last also when it has no end
	cut     bool // there was no room for all of them
	partial bool // not even for the first of them
}

// read reads the lines until there is no room for more.
func (s *span) read(ctx context.Context, in *bufio.Reader) error {
	for begun := false; ; {
		piece, err := in.ReadSlice('\n')
		if len(piece) > 0 && !begun {
			s.line++
			begun = true
			if s.to > 0 && s.line > s.to {
				s.line--
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if s.line >= s.from && len(piece) > 0 {
			if len(s.kept)+len(piece) > s.most {
				s.overflow(piece)
				return nil
			}
			s.kept = append(s.kept, piece...)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, bufio.ErrBufferFull): // more of the line is to come
		case err != nil:
			return err
		default:
			begun = false
		}
	}
}

// overflow keeps whole lines, or the beginning of the first.
func (s *span) overflow(piece []byte) {
	s.cut = true
	if end := strings.LastIndexByte(string(s.kept), '\n'); end >= 0 {
		s.kept = s.kept[:end+1]
		return
	}
	s.kept = append(s.kept, piece[:s.most-len(s.kept)]...)
	s.partial = true
}

// text returns the lines, with notes on what is missing.
func (s *span) text(numbers bool) string {
	text := string(s.kept)
	if whole := strings.ReplaceAll(text, "\r\n", "\n"); whole != text {
		text, s.crlf = whole, true
	}
	text = visible(text)
	if text == "" && !s.cut {
		if s.line == 0 {
			return "[the file is empty]"
		}
		return fmt.Sprintf("[no line: the file has %d]", s.line)
	}
	last := s.from + strings.Count(strings.TrimSuffix(text, "\n"), "\n")
	if numbers {
		text = numbered(text, s.from)
	}
	var notes []string
	switch {
	case s.partial:
		notes = append(notes, fmt.Sprintf("[cut: line %d is longer than %d bytes; go on with from=%d]", s.from, s.most, s.from+1))
	case s.cut:
		notes = append(notes, fmt.Sprintf("[cut after line %d; go on with from=%d]", last, last+1))
	}
	if s.crlf {
		notes = append(notes, "[lines end in CRLF]")
	}
	if len(notes) == 0 {
		return text
	}
	return strings.TrimSuffix(text, "\n") + "\n" + strings.Join(notes, "\n")
}

func numbered(text string, from int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintf(&b, "%6d  %s", from, line)
		from++
	}
	return b.String()
}

// maxListed bounds the entries of a folder that are read.
const maxListed = 10_000

type listArguments struct {
	Path string `json:"path,omitempty" jsonschema:"the folder, relative to the workspace; the workspace itself where it is left out"`
}

func (w *Workspace) listTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_list", Effects: tool.Read, Nature: tool.ReadOnly, Timeout: timeout,
		Description: "List a folder of the workspace: names in order, folders with a slash, files with their size in bytes, links with what they point at.",
	}, w.list)
}

func (w *Workspace) list(ctx context.Context, in listArguments) (string, error) {
	if in.Path == "" {
		in.Path = "."
	}
	w, name, leave, err := w.enter(ctx, in.Path, true)
	if err != nil {
		return "", err
	}
	defer leave()
	if info, err := w.root.Stat(name); err != nil {
		return "", regular.ShortError(w.shown(name), err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s is no folder", w.shown(name))
	}
	f, err := w.root.Open(name)
	if err != nil {
		return "", regular.ShortError(w.shown(name), err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	entries, err := f.ReadDir(maxListed + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", regular.ShortError(w.shown(name), err)
	}
	if len(entries) == 0 {
		return "[the folder is empty]", nil
	}
	out := report{most: w.config.MaxResult}
	if len(entries) > maxListed {
		entries = entries[:maxListed]
		out.note("there are more than %d entries, here are some", maxListed)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		out.add(w.entry(name, e))
	}
	return out.text("entries"), nil
}

// entry returns one line of a listing.
func (w *Workspace) entry(dir string, e fs.DirEntry) string {
	name := strings.ReplaceAll(visible(e.Name()), "\n", "␊")
	switch {
	case e.IsDir():
		return name + "/"
	case e.Type()&fs.ModeSymlink != 0:
		if to, err := w.root.Readlink(filepath.Join(dir, e.Name())); err == nil {
			return name + " -> " + slashed(to)
		}
	case e.Type().IsRegular():
		if info, err := w.root.Lstat(filepath.Join(dir, e.Name())); err == nil {
			return fmt.Sprintf("%s  %d", name, info.Size())
		}
	}
	return name + "  [" + e.Type().String() + "]"
}
