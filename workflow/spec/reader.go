package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// maxProblems is how many problems of a file are told at once.
const maxProblems = 50

// reader fills a Spec from a tree and collects everything wrong on the way.
// The rules stand in code and not in a JSON Schema: so every violation has the
// pointer of the value, a reason a person can act on, and its line.
type reader struct {
	problems []problem
	guard    func(baseURL string) error
}

type problem struct {
	session.SpecProblem
	file string
	line int
}

func (r *reader) problem(p string, n *node, format string, args ...any) {
	r.problemAt(p, n.file, n.line, format, args...)
}

func (r *reader) problemAt(p, file string, line int, format string, args ...any) {
	reason := fmt.Sprintf(format, args...) + placeOf(file, line)
	r.problems = append(r.problems, problem{session.SpecProblem{Pointer: p, Reason: reason}, file, line})
}

// verdict is everything wrong, in the order of the file: nil if nothing is.
func (r *reader) verdict(file string) error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.Pointer, b.Pointer))
	})
	more := len(r.problems) - maxProblems
	if more > 0 {
		r.problems = r.problems[:maxProblems]
	}
	e := &session.SpecError{File: file, Pointer: r.problems[0].Pointer, Reason: r.problems[0].Reason}
	for _, p := range r.problems[1:] {
		e.Also = append(e.Also, p.SpecProblem)
	}
	if more > 0 {
		e.Also = append(e.Also, session.SpecProblem{Reason: fmt.Sprintf("and %d more", more)})
	}
	return e
}

// field reads one value into its place.
type field func(r *reader, p string, n *node)

// key is a key of a mapping with a closed set of them.
type key struct {
	name     string
	required bool
	read     field
}

func must(name string, read field) key { return key{name, true, read} }
func may(name string, read field) key  { return key{name, false, read} }

// keys reads a mapping that may hold these keys and no others.
func keys(known ...key) field {
	return func(r *reader, p string, n *node) {
		if !r.is(p, n, object) {
			return
		}
		for _, e := range n.entries {
			i := slices.IndexFunc(known, func(k key) bool { return k.name == e.key })
			if i < 0 {
				r.problemAt(child(p, e.key), n.file, e.line, "%s", unknownKey(e.key, known))
				continue
			}
			known[i].read(r, child(p, e.key), e.value)
		}
		for _, k := range known {
			if k.required && n.get(k.name) == nil {
				r.problem(child(p, k.name), n, "is missing")
			}
		}
	}
}

// is refuses a value of another kind.
func (r *reader) is(p string, n *node, want kind) bool {
	if n.kind == want || want == float && n.kind == integer {
		return true
	}
	hint := ""
	switch {
	case n.kind == null:
		hint = "; leave the key out or give it a value"
	case want == text && (n.kind == integer || n.kind == float || n.kind == boolean):
		hint = "; put it in quotes"
	}
	r.problem(p, n, "is %s, not %s%s", n.kind, want, hint)
	return false
}

// unknownKey points to the key that was likely meant.
func unknownKey(name string, known []key) string {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	if likely := nearest(name, names); likely != "" {
		return fmt.Sprintf("is an unknown key; did you mean %q?", likely)
	}
	slices.Sort(names)
	return "is an unknown key; known are " + strings.Join(names, ", ")
}

// nearest is the name that a mistyped one was likely meant to be: two letters
// away at most, fewer where it is short, and none where it is very short.
func nearest(name string, names []string) string {
	best, least := "", min(3, (len(name)+1)/2)
	for _, known := range names {
		if d := distance(fold(name), fold(known), least); d < least {
			best, least = known, d
		}
	}
	return best
}

func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// distance counts the letters to add, drop or change between two words. Words
// whose lengths alone are too far apart are not compared.
func distance(a, b string, most int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
