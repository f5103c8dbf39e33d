package pyre

import "slices"

// maxDepth bounds how far matching calls itself: rounds of a repeated group,
// one inside the other.
const maxDepth = 50_000

// matcher is the state of one search.
type matcher struct {
	text   []rune
	spans  []span
	budget *int
	depth  int
	spent  bool // the search is over: everything fails
}

// step counts a step, and reports whether there was one left.
func (m *matcher) step() bool {
	if m.spent || *m.budget <= 0 {
		m.spent = true
		return false
	}
	*m.budget--
	return true
}

// node is a part of a pattern. match tries it at pos and calls next with the
// end of each way it matches, in order of preference, until next accepts.
type node interface {
	match(m *matcher, pos int, next func(int) bool) bool
}

// oneRune is a node that takes exactly one character.
type oneRune interface {
	node
	accepts(c rune) bool
}

type (
	char struct {
		c          rune
		ignoreCase bool
		ascii      bool
	}
	anyChar   struct{ newline bool }
	sequence  []node
	choice    []node
	assertion struct {
		holds func(text []rune, pos int) bool
	}
	group struct {
		index int
		body  node
	}
	backref struct {
		index      int
		ignoreCase bool
		low, high  int // the width of the group
	}
	look struct {
		body    node
		behind  int // characters to go back; -1 looks ahead
		negated bool
	}
	atomic struct{ body node }
	repeat struct {
		body     node
		min, max int
		lazy     bool
	}
)

func (n char) accepts(c rune) bool {
	if c == n.c {
		return true
	}
	return n.ignoreCase && fold(c, n.ascii) == fold(n.c, n.ascii)
}

func (n anyChar) accepts(c rune) bool { return n.newline || c != '\n' }

func matchOne(m *matcher, n oneRune, pos int, next func(int) bool) bool {
	return m.step() && pos < len(m.text) && n.accepts(m.text[pos]) && next(pos+1)
}

func (n char) match(m *matcher, pos int, next func(int) bool) bool {
	return matchOne(m, n, pos, next)
}

func (n anyChar) match(m *matcher, pos int, next func(int) bool) bool {
	return matchOne(m, n, pos, next)
}

func (n *class) match(m *matcher, pos int, next func(int) bool) bool {
	return matchOne(m, n, pos, next)
}

func (n sequence) match(m *matcher, pos int, next func(int) bool) bool {
	if len(n) == 0 {
		return next(pos)
	}
	// Characters before anything else need no call per character.
	if one, ok := n[0].(oneRune); ok {
		if !m.step() || pos >= len(m.text) || !one.accepts(m.text[pos]) {
			return false
		}
		return n[1:].match(m, pos+1, next)
	}
	return n[0].match(m, pos, func(end int) bool { return n[1:].match(m, end, next) })
}

func (n choice) match(m *matcher, pos int, next func(int) bool) bool {
	for _, way := range n {
		if !m.step() {
			return false
		}
		if way.match(m, pos, next) {
			return true
		}
	}
	return false
}

func (n assertion) match(m *matcher, pos int, next func(int) bool) bool {
	return m.step() && n.holds(m.text, pos) && next(pos)
}

func (n *group) match(m *matcher, pos int, next func(int) bool) bool {
	return n.body.match(m, pos, func(end int) bool {
		before := m.spans[n.index]
		m.spans[n.index] = span{pos, end}
		if next(end) {
			return true
		}
		m.spans[n.index] = before
		return false
	})
}

func (n backref) match(m *matcher, pos int, next func(int) bool) bool {
	s := m.spans[n.index]
	if s.start < 0 {
		return false
	}
	for i := s.start; i < s.end; i++ {
		if !m.step() || pos >= len(m.text) || !sameRune(m.text[i], m.text[pos], n.ignoreCase) {
			return false
		}
		pos++
	}
	return next(pos)
}

func (n *look) match(m *matcher, pos int, next func(int) bool) bool {
	if !m.step() {
		return false
	}
	from := pos
	if n.behind >= 0 {
		from = pos - n.behind
	}
	before := slices.Clone(m.spans)
	found := from >= 0 && n.body.match(m, from, func(int) bool { return true })
	if m.spent {
		return false
	}
	if n.negated {
		copy(m.spans, before)
		return !found && next(pos)
	}
	if found && next(pos) {
		return true
	}
	copy(m.spans, before)
	return false
}

func (n *atomic) match(m *matcher, pos int, next func(int) bool) bool {
	before := slices.Clone(m.spans)
	end := -1
	if n.body.match(m, pos, func(e int) bool { end = e; return true }) && next(end) {
		return true
	}
	copy(m.spans, before)
	return false
}

func (n *repeat) match(m *matcher, pos int, next func(int) bool) bool {
	if one, ok := n.body.(oneRune); ok {
		return n.matchRunes(m, one, pos, next)
	}
	return n.round(m, pos, 0, -1, next)
}

// matchRunes repeats a single character without calling itself.
func (n *repeat) matchRunes(m *matcher, one oneRune, pos int, next func(int) bool) bool {
	taken := 0
	more := func() bool {
		if taken == n.max || pos+taken >= len(m.text) || !m.step() || !one.accepts(m.text[pos+taken]) {
			return false
		}
		taken++
		return true
	}
	for taken < n.min {
		if !more() {
			return false
		}
	}
	if n.lazy {
		for {
			if next(pos + taken) {
				return true
			}
			if !more() {
				return false
			}
		}
	}
	for more() {
	}
	for ; taken >= n.min; taken-- {
		if next(pos + taken) {
			return true
		}
		if !m.step() {
			return false
		}
	}
	return false
}

// round tries one more round after count of them, the last of which began
// at last. A round that begins where the last one did would never end, so
// it is not tried beyond the minimum.
func (n *repeat) round(m *matcher, pos, count, last int, next func(int) bool) bool {
	m.depth++
	defer func() { m.depth-- }()
	if m.depth > maxDepth {
		m.spent = true
	}
	if !m.step() {
		return false
	}
	again := func(last int) bool {
		return n.body.match(m, pos, func(end int) bool { return n.round(m, end, count+1, last, next) })
	}
	if count < n.min {
		return again(last)
	}
	possible := count != n.max && pos != last
	if n.lazy {
		return next(pos) || possible && again(pos)
	}
	return possible && again(pos) || next(pos)
}
