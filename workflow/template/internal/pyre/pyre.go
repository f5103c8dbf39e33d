// Package pyre searches text with regular expressions that mean what they
// mean to Python's re module, on strings, in Unicode.
//
// Go's regexp cannot stand in: its \d, \w, \s and \b see ASCII only, its $
// does not match before a final newline, and it has neither lookaround nor
// backreferences. This one backtracks as Python's does, so it can take very
// long; a budget of steps ends such a search with an error.
//
// Not there: (?(group)yes|no), \N{name} and bytes patterns. They are refused.
package pyre

import (
	"errors"
	"fmt"
)

// Regexp is a compiled pattern. It never changes.
type Regexp struct {
	root   node
	groups int
}

// ErrBudget is a search that takes more steps than it was given, or nests
// deeper than the matcher follows.
var ErrBudget = errors.New("the pattern takes too long on this text")

// Compile reads a pattern. With ignoreCase it matches whatever the case, as
// if it began with (?i).
func Compile(pattern string, ignoreCase bool) (*Regexp, error) {
	p := &parser{text: []rune(pattern), names: map[string]int{}, widths: map[int][2]int{}}
	p.flags.ignoreCase = ignoreCase
	root, err := p.parse()
	if err != nil {
		return nil, fmt.Errorf("pattern %q, position %d: %w", pattern, p.pos, err)
	}
	return &Regexp{root: root, groups: p.groups}, nil
}

// Groups is the number of capturing groups.
func (re *Regexp) Groups() int { return re.groups }

// Match is the first match in a text.
type Match struct {
	text  []rune
	spans []span // of the whole and of each group
}

type span struct{ start, end int }

// Group is the text of a group, 0 for the whole match. A group that took no
// part, or that does not exist, is not ok.
func (m *Match) Group(i int) (text string, ok bool) {
	if i >= len(m.spans) || m.spans[i].start < 0 {
		return "", false
	}
	return string(m.text[m.spans[i].start:m.spans[i].end]), true
}

// Search finds the first match in text, nil if there is none. It takes its
// steps from budget and leaves the rest there.
func (re *Regexp) Search(text string, budget *int) (*Match, error) {
	m := &matcher{text: []rune(text), spans: make([]span, re.groups+1), budget: budget}
	for start := 0; start <= len(m.text); start++ {
		for i := range m.spans {
			m.spans[i] = span{-1, -1}
		}
		found := re.root.match(m, start, func(end int) bool {
			m.spans[0] = span{start, end}
			return true
		})
		if m.spent {
			return nil, ErrBudget
		}
		if found {
			return &Match{m.text, m.spans}, nil
		}
	}
	return nil, nil
}
