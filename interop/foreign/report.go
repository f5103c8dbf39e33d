// Package foreign is what the importers of other programs share: the
// conversation that they read, the session that it becomes, the report of what
// was left out, and the masking of credentials.
package foreign

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Report says what an import changed. It has paths and names, never values. A
// path with [*] means every item of a list.
type Report struct {
	Dropped []string // known parts of the file that a session does not keep
	Unknown []string // unknown keys; they are not kept either
	Renamed []Rename // names that had to change
	Notes   []string // other facts for a person
	Models  []string // models that the session needs
	Tools   []string // tools that the session needs
}

// Rename is a name that had to change to be kept.
type Rename struct{ Path, From, To string }

// Drop says that a part of the file was left out.
func (r *Report) Drop(path string) { r.Dropped = append(r.Dropped, path) }

// Note adds a fact for a person.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// GeneralPath replaces indexes by [*].
func GeneralPath(path string) string { return short(index.ReplaceAllString(path, "[*]")) }

// short cuts a text that is too long to be read.
func short(text string) string {
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Tidy returns the report without repetitions.
func (r Report) Tidy() Report {
	r.Dropped, r.Unknown = distinctPaths(r.Dropped), distinctPaths(r.Unknown)
	for _, list := range []*[]string{&r.Notes, &r.Models, &r.Tools} {
		*list = distinct(*list)
	}
	return r
}

func distinctPaths(paths []string) []string {
	var generals []string
	for _, path := range paths {
		generals = append(generals, GeneralPath(path))
	}
	slices.Sort(generals)
	return limited(slices.Compact(generals))
}

// distinct removes duplicates and empty texts.
func distinct(list []string) []string {
	var kept []string
	seen := map[string]bool{"": true}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			kept = append(kept, short(s))
		}
	}
	return limited(kept)
}

// limited returns the first of a list and how many more there are: a file may
// have any number of names, and a session keeps what was left out.
func limited(list []string) []string {
	const most = 100
	if len(list) <= most {
		return list
	}
	return append(list[:most:most], fmt.Sprintf("… and %d more", len(list)-most))
}
