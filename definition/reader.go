package definition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// reader fills a definition from a document.
type reader struct {
	source string
	part   string  // what errors about the whole document name: file or front matter
	body   *string // the text of a Markdown file
	secret string  // path of the first credential
	document.Reader
}

// refuse is the error for a file that has no structure to look into.
func (r *reader) refuse(reason string) error {
	return &session.DefinitionError{Source: r.source, Problems: []session.Problem{{Field: r.part, Message: reason}}}
}

const fence = "---"

// splitMarkdown takes the text below the front matter as the body and returns
// the front matter, its lines numbered as in the file.
func (r *reader) splitMarkdown(data []byte) ([]byte, error) {
	if err := document.Check(data); err != nil {
		return nil, err
	}
	isFence := func(line string) bool { return strings.TrimRight(line, " \t") == fence }
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	lines := strings.Split(text, "\n")
	if !isFence(lines[0]) {
		return nil, errors.New("has no front matter: its first line must be ---")
	}
	end := 1 + slices.IndexFunc(lines[1:], isFence)
	if end == 0 {
		return nil, errors.New("has no line --- that ends the front matter")
	}
	lines[0] = ""
	body := strings.TrimSpace(strings.Join(lines[end+1:], "\n"))
	r.body, r.part = &body, "front matter"
	return []byte(strings.Join(lines[:end], "\n")), nil
}

// read reports everything wrong with a definition at once.
func (r *reader) read(root *document.Node) (d session.Definition, err error) {
	if root.Kind != document.Map {
		return d, r.refuse(fmt.Sprintf("is %s, not a map with a name and other keys", root.Kind))
	}
	r.Dotted, r.Unknown = true, func(path, key string) bool {
		if session.SecretKey(key) {
			r.foundSecret(path)
			return true
		}
		return false
	}
	r.definition(&d)(r.Root(root))
	if r.secret != "" {
		return session.Definition{}, &session.SecretError{Source: r.source, Key: r.secret}
	}
	r.prompt(&d, lineOf(root, "systemPrompt"))
	if root.Get("name") == nil {
		r.Report(document.Problem{Path: "name", Reason: "is missing"})
	}
	found := r.Problems()
	for _, p := range d.Problems() {
		if !slices.ContainsFunc(found, func(f document.Problem) bool { return overlap(f.Path, p.Field) }) {
			r.Report(document.Problem{Path: p.Field, Reason: p.Message, Line: lineOf(root, p.Field)})
		}
	}
	var problems []session.Problem
	for _, p := range r.Problems() {
		problems = append(problems, session.Problem{Field: cmp.Or(p.Path, r.part), Message: p.Message()})
	}
	if problems != nil {
		return session.Definition{}, &session.DefinitionError{Source: r.source, Problems: problems}
	}
	return d, nil
}

// lineOf is the line of the value at a path such as mcp[0].url, 0 if there is none.
func lineOf(n *document.Node, path string) int {
	for _, e := range n.Entries {
		rest, ok := strings.CutPrefix(path, e.Key)
		if !ok {
			continue
		}
		if rest == "" {
			return e.Line
		}
		if line := lineOf(e.Value, strings.TrimPrefix(rest, ".")); line > 0 {
			return line
		}
	}
	var i int
	if _, err := fmt.Sscanf(path, "[%d]", &i); err != nil || i >= len(n.Items) {
		return 0
	}
	_, rest, _ := strings.Cut(path, "]")
	if rest == "" {
		return n.Items[i].Line
	}
	return lineOf(n.Items[i], strings.TrimPrefix(rest, "."))
}

// overlap says that one path is the other or leads into it.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// prompt takes the body of a Markdown file as the system prompt.
func (r *reader) prompt(d *session.Definition, line int) {
	switch {
	case r.body == nil:
	case line > 0:
		r.Report(document.Problem{Path: "systemPrompt", Line: line, Reason: "stands in the front matter, but the text below it is the prompt; remove the key"})
	default:
		if d.SystemPrompt = *r.body; d.SystemPrompt == "" {
			r.Report(document.Problem{Path: "systemPrompt", Reason: "is missing: there is no text below the front matter"})
		}
	}
}
