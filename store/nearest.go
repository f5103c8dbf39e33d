package store

// Nearest collects the best of any number of passages, up to the query's limit,
// in the order of Passage.Compare. It serves stores that compare one vector after
// the other, and never holds more than twice the limit.
type Nearest struct {
	query Near
	least float64   // score that a passage needs to be among the best
	found []Passage // in no order
}

// Nearest begins to collect passages for a checked query.
func (q Near) Nearest() *Nearest { return &Nearest{query: q, least: q.Least} }

// Admits reports whether a passage of this score may be among the best, so that
// a store need not read more about one that cannot.
func (n *Nearest) Admits(score float64) bool { return score >= n.least }

// Add adds a passage if it may be among the best.
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

// Best returns the best passages, the best first.
func (n *Nearest) Best() []Passage {
	n.found = n.query.Rank(n.found)
	return n.found
}
