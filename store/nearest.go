package store

// Nearest keeps the best of any number of passages, as many as are asked for,
// in the order of Passage.Compare. It is what a store needs that looks at one
// vector after the other, and never holds more than twice the limit.
type Nearest struct {
	query Near
	least float64   // that a passage needs to be among the best
	found []Passage // in no order
}

// Nearest begins a search for the passages that a checked question asks for.
func (q Near) Nearest() *Nearest { return &Nearest{query: q, least: q.Least} }

// Admits reports whether a passage of this score may be among the best. It
// saves finding out more about one that cannot.
func (n *Nearest) Admits(score float64) bool { return score >= n.least }

// Add takes a passage in, where it may be among the best.
func (n *Nearest) Add(p Passage) {
	if !n.Admits(p.Score) {
		return
	}
	if n.found = append(n.found, p); len(n.found) < 2*n.query.Limit {
		return
	}
	n.found = n.query.Rank(n.found)
	n.least = n.found[len(n.found)-1].Score
}

// Best are the best of all, the best first.
func (n *Nearest) Best() []Passage {
	n.found = n.query.Rank(n.found)
	return n.found
}
