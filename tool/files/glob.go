package files

import (
	"fmt"
	"path"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// glob is a pattern for slash-separated names: in each part * ? and [a-z] as
// in a shell, and ** for any number of parts. A pattern of one part fits the
// last part of a name.
type glob []string

func parseGlob(pattern string) (glob, error) {
	if pattern == "" {
		return nil, &session.InvalidError{Field: "pattern", Reason: "is empty"}
	}
	parts := strings.Split(path.Clean(pattern), "/")
	for _, part := range parts {
		if _, err := path.Match(part, ""); err != nil {
			return nil, &session.InvalidError{Field: "pattern", Reason: fmt.Sprintf("%q: %v", pattern, err)}
		}
	}
	if len(parts) == 1 {
		parts = []string{"**", parts[0]}
	}
	return parts, nil
}

// match takes time proportional to the parts of pattern and name: of several
// ** only the last may still have to be widened.
func (g glob) match(name string) bool {
	parts := strings.Split(name, "/")
	p, n := 0, 0
	star, mark := -1, 0 // the last ** met, and the first part of the name it does not cover yet
	for n < len(parts) {
		switch {
		case p < len(g) && g[p] == "**":
			star, mark = p, n
			p++
		case p < len(g) && fits(g[p], parts[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(g) && g[p] == "**" {
		p++
	}
	return p == len(g)
}

func fits(pattern, part string) bool {
	ok, err := path.Match(pattern, part)
	return ok && err == nil
}
