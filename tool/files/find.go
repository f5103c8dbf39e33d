package files

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// maxVisited bounds how many entries one call looks at.
const maxVisited = 200_000

type findArguments struct {
	Pattern string `json:"pattern" jsonschema:"a name with * ? [a-z], or a path in which ** stands for any folders: *.go, docs/**/*.md"`
	Path    string `json:"path,omitempty" jsonschema:"the folder to look in; the workspace itself where it is left out"`
}

func (w *Workspace) findTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_find", Effects: tool.Read, Nature: tool.ReadOnly, Timeout: timeout,
		Description: "Find files and folders of the workspace by name. Folders called .git are left out, and links to folders are not followed.",
	}, w.find)
}

func (w *Workspace) find(ctx context.Context, in findArguments) (string, error) {
	pattern, err := parseGlob(in.Pattern)
	if err != nil {
		return "", err
	}
	out := report{most: w.config.MaxResult}
	err = w.walk(ctx, in.Path, &out, func(w *Workspace, name, below string, e fs.DirEntry) error {
		if !pattern.match(below) {
			return nil
		}
		shown := strings.ReplaceAll(w.shown(name), "\n", "␊")
		if e.IsDir() {
			shown += "/"
		}
		out.add(shown)
		return nil
	})
	if err != nil {
		return "", err
	}
	if out.count == 0 {
		out.note("nothing found")
	}
	return out.text("names"), nil
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// walk visits what is below a folder, by local name and by name below the
// folder, in order. What cannot be read is noted and stops nothing else.
func (w *Workspace) walk(ctx context.Context, path string, out *report, visit func(w *Workspace, name, below string, e fs.DirEntry) error) error {
	if path == "" {
		path = "."
	}
	w, start, leave, err := w.enter(ctx, path, true)
	defer leave()
	if err == nil {
		start, err = w.followLinks(start)
	}
	if err != nil {
		return err
	}
	visited, unreadable := 0, 0
	start = filepath.ToSlash(start)
	err = fs.WalkDir(w.root.FS(), start, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == start:
			return regular.ShortError(w.shown(name), err)
		case err != nil:
			unreadable++
			return nil
		case name == start && e.IsDir():
			return nil
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		}
		if visited++; visited > maxVisited {
			out.note("stopped after %d files and folders: look in a smaller one", maxVisited)
			return errEnough
		}
		below := strings.TrimPrefix(name, start+"/")
		return visit(w, filepath.FromSlash(name), below, e)
	})
	if unreadable > 0 {
		out.note("%d could not be read", unreadable)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

type searchArguments struct {
	Pattern    string `json:"pattern" jsonschema:"a regular expression (RE2), matched line by line"`
	Path       string `json:"path,omitempty" jsonschema:"the file or folder to look in; the workspace itself where it is left out"`
	Files      string `json:"files,omitempty" jsonschema:"only in files whose name fits this pattern, as in file_find"`
	IgnoreCase bool   `json:"ignoreCase,omitempty"`
	Context    int    `json:"context,omitempty" jsonschema:"lines to show before and after a match, at most 10"`
	Max        int    `json:"max,omitempty" jsonschema:"matches to show, at most 1000; 100 where it is left out"`
}

func (w *Workspace) searchTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_search", Effects: tool.Read, Deep: true, Nature: tool.ReadOnly, Timeout: timeout,
		Description: "Search the text files of the workspace for a regular expression. Each match is shown as path:line:text. Binary files and folders called .git are left out.",
	}, w.search)
}

func (w *Workspace) search(ctx context.Context, in searchArguments) (string, error) {
	s, err := w.newSearch(in)
	if err != nil {
		return "", err
	}
	err = w.walk(ctx, in.Path, &s.out, func(w *Workspace, name, below string, e fs.DirEntry) error {
		if e.IsDir() || (s.files != nil && !s.files.match(below)) {
			return nil
		}
		if !e.Type().IsRegular() {
			return nil // a link is met again under its own name, or leads out
		}
		return s.file(w, name)
	})
	if err != nil {
		return "", err
	}
	if s.found == 0 {
		s.out.note("nothing found")
	}
	if s.skipped > 0 {
		s.out.note("not searched: %d that are binary, too long or unreadable", s.skipped)
	}
	return s.out.text("lines"), nil
}

// search is the state of one search.
type search struct {
	pattern        *regexp.Regexp
	files          glob
	context, most  int
	found, skipped int
	out            report
}

func (w *Workspace) newSearch(in searchArguments) (*search, error) {
	if in.IgnoreCase {
		in.Pattern = "(?i)" + in.Pattern
	}
	pattern, err := regexp.Compile(in.Pattern)
	if err != nil {
		return nil, &session.InvalidError{Field: "pattern", Reason: err.Error()}
	}
	s := &search{pattern: pattern, context: min(max(in.Context, 0), 10), most: 100, out: report{most: w.config.MaxResult}}
	if in.Max > 0 {
		s.most = min(in.Max, 1000)
	}
	if in.Files != "" {
		if s.files, err = parseGlob(in.Files); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *search) file(w *Workspace, name string) error {
	text, err := w.content(name)
	if err != nil || binary(text) {
		s.skipped++
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	shown := 0 // lines of this file that have been passed
	for i, line := range lines {
		if !s.pattern.MatchString(strings.TrimSuffix(line, "\r")) {
			continue
		}
		if s.found == s.most {
			s.out.note("stopped after %d matches", s.most)
			return errEnough
		}
		s.found++
		first, end := max(i-s.context, shown), min(i+s.context+1, len(lines))
		if s.context > 0 && first > shown && s.out.count > 0 {
			s.out.add("--")
		}
		for at := first; at < end; at++ {
			mark := "-"
			if s.pattern.MatchString(strings.TrimSuffix(lines[at], "\r")) {
				mark = ":"
			}
			s.out.add(w.shown(name) + mark + strconv.Itoa(at+1) + mark + clip(visible(strings.TrimSuffix(lines[at], "\r")), 400))
		}
		shown = max(shown, end)
	}
	return nil
}
