package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxProblems is how many problems of a document are shown.
	maxProblems = 50
	// maxKept is how many are kept to choose from; the others are counted.
	maxKept = 200
)

// Reader collects everything wrong with a document while fields read it.
type Reader struct {
	// Dotted writes paths as a.b[0] and not as JSON pointers (/a/b/0).
	Dotted bool
	// Unknown may take care of an unknown key; where it returns false, the key
	// is a problem.
	Unknown func(path, key string) bool

	problems []Problem
	dropped  int
}

// Problem is one thing wrong with a document. Path is empty for the document
// as a whole.
type Problem struct {
	Path         string
	Reason       string
	File         string
	Line, Column int
}

// Message is the reason and the place.
func (p Problem) Message() string { return p.Reason + place(p.File, p.Line) }

// Value is a node, where it is and who reads it.
type Value struct {
	*Node
	Path string
	r    *Reader
}

// Root begins to read a document: it reports keys that are there twice.
func (r *Reader) Root(n *Node) Value { return Value{r: r}.With(n) }

// With puts another document in the place of a value and begins to read it.
func (v Value) With(n *Node) Value {
	v.Node = n
	v.reportRepeats()
	return v
}

func (v Value) reportRepeats() {
	look := func(n *Node) bool { return n.hasRepeats && len(v.r.problems) < maxKept }
	for i, item := range v.Items {
		if look(item) {
			v.Item(i).reportRepeats()
		}
	}
	for _, e := range v.Entries {
		if look(e.Value) {
			v.child(e).reportRepeats()
		}
	}
	for _, e := range v.repeats {
		v.r.Report(Problem{Path: v.r.join(v.Path, e.Key), Reason: "is there twice", File: v.File, Line: e.Line})
	}
}

// Report adds a problem.
func (r *Reader) Report(p Problem) {
	if len(r.problems) >= maxKept {
		r.dropped++
		return
	}
	r.problems = append(r.problems, p)
}

// Problems lists what was reported in the order of the file, no more than a
// person can use. The last one then says how many are left out.
func (r *Reader) Problems() []Problem {
	all := slices.Compact(slices.SortedStableFunc(slices.Values(r.problems), func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason))
	}))
	if more := len(all) + r.dropped - maxProblems; more > 0 {
		return append(all[:maxProblems], Problem{Reason: fmt.Sprintf("and %d more", more)})
	}
	return all
}

func (r *Reader) join(path, key string) string {
	switch {
	case !r.Dotted:
		return Pointer(path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer is the JSON pointer of keys and indexes under another pointer.
func Pointer(p string, keys ...any) string {
	for _, key := range keys {
		p += "/" + pointerEscapes.Replace(fmt.Sprint(key))
	}
	return p
}

// Item is the value at an index of a list.
func (v Value) Item(i int) Value {
	path := Pointer(v.Path, i)
	if v.r.Dotted {
		path = fmt.Sprintf("%s[%d]", v.Path, i)
	}
	return Value{v.Items[i], path, v.r}
}

func (v Value) child(e Entry) Value { return Value{e.Value, v.r.join(v.Path, e.Key), v.r} }

// Key is the value of a key of a map. Its Node is nil if there is none.
func (v Value) Key(key string) Value { return Value{v.Get(key), v.r.join(v.Path, key), v.r} }

// Problem reports something wrong with the value.
func (v Value) Problem(format string, args ...any) {
	v.r.Report(Problem{v.Path, fmt.Sprintf(format, args...), v.File, v.Line, v.Column})
}

// Is reports a value of another kind.
func (v Value) Is(want Kind) bool {
	if v.Kind == want || want == Number && v.Kind == Integer {
		return true
	}
	hint := ""
	switch {
	case v.Kind == Null:
		hint = "; leave the key out or give it a value"
	case want == String && (v.Kind == Integer || v.Kind == Number || v.Kind == Bool):
		hint = "; put it in quotes"
	}
	v.Problem("is %s, not %s%s", v.Kind, want, hint)
	return false
}

// Nearest is the name that a mistyped one was likely meant to be: two letters
// away at most, fewer where it is short, and none where it is very short.
func Nearest(name string, names []string) string {
	best, least := "", min(3, (len(name)+1)/2)
	for _, known := range names {
		if d := distance(fold(name), fold(known), least); d < least {
			best, least = known, d
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "")

func fold(name string) string { return separators.Replace(strings.ToLower(name)) }

// distance counts the letters to add, drop or change between two words; two
// neighbours that changed places count once. Words whose lengths alone are too
// far apart are not compared.
func distance(a, b string, most int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= most {
		return most
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
