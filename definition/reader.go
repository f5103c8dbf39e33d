package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// reader fills a definition from a tree and collects everything wrong on the way.
type reader struct {
	source   string
	part     string  // what errors about structure speak of
	body     *string // the text of a Markdown file
	lines    map[string]int
	problems []found
	secret   string // path of the first credential
}

type found struct {
	session.Problem
	line int
}

// field reads one value into its place.
type field func(r *reader, path string, n *node)

// definition reads the whole document and says everything wrong with it at once.
func (r *reader) definition(root *node, d *session.Definition) error {
	if root.kind != object {
		return r.refuse(fmt.Sprintf("is %s, not a map with a name and other keys", root.kind))
	}
	r.object("", root, definitionFields(d))
	if r.secret != "" {
		return &session.SecretError{Source: r.source, Key: r.secret}
	}
	r.prompt(root, d)
	if r.lines["name"] == 0 {
		r.problem("name", 0, "is missing")
	}
	for _, p := range d.Problems() {
		if !r.reported(p.Field) {
			r.problem(p.Field, r.lines[p.Field], "%s", p.Message)
		}
	}
	return r.verdict()
}

func (r *reader) verdict() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	all := make([]session.Problem, len(r.problems))
	for i, p := range r.problems {
		all[i] = p.Problem
	}
	return &session.DefinitionError{Source: r.source, Problems: all}
}

func (r *reader) problem(path string, line int, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if line > 0 {
		message += fmt.Sprintf(" (line %d)", line)
	}
	r.problems = append(r.problems, found{session.Problem{Field: path, Message: message}, line})
}

// reported says that a field, something inside it or something around it has
// a problem already.
func (r *reader) reported(path string) bool {
	return slices.ContainsFunc(r.problems, func(p found) bool {
		return p.Field == path || inside(p.Field, path) || inside(path, p.Field)
	})
}

func inside(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

func (r *reader) foundSecret(path string) {
	if r.secret == "" {
		r.secret = path
	}
}

// is refuses a value of another kind.
func (r *reader) is(path string, n *node, want kind) bool {
	if n.kind == want {
		return true
	}
	hint := ""
	switch {
	case n.kind == null:
		hint = "; leave the key out or give it a value"
	case want == text && (n.kind == number || n.kind == boolean):
		hint = "; put it in quotes"
	}
	r.problem(path, n.line, "is %s, not %s%s", n.kind, want, hint)
	return false
}

// object reads a map with a closed set of keys.
func (r *reader) object(path string, n *node, known map[string]field) {
	if !r.is(path, n, object) {
		return
	}
	seen := map[string]bool{}
	for _, e := range n.entries {
		at := join(path, e.key)
		read, ok := known[e.key]
		switch {
		case seen[e.key]:
			r.problem(at, e.line, "is there twice")
		case ok:
			r.lines[at] = e.line
			read(r, at, e.value)
		case session.SecretKey(e.key):
			r.foundSecret(at)
		default:
			r.problem(at, e.line, "%s", unknownKey(e.key, known))
		}
		seen[e.key] = true
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// unknownKey points to the key that was likely meant.
func unknownKey(key string, known map[string]field) string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if nearly(fold(key), fold(name)) {
			return fmt.Sprintf("is an unknown key; did you mean %q?", name)
		}
	}
	return "is an unknown key; known are " + strings.Join(names, ", ")
}

func fold(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// nearly reports words that differ by one letter added, left out or changed.
func nearly(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if a == "" || len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i == len(a) || a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}
