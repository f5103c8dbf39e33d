package store

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// A store divides the vectors of a large place into cells, each around a centre,
// so that a search compares the vectors of the cells near the query and not all
// of them. A vector enters the cell with the nearest centre. A cell that grows
// too large is split in two. So the index grows with the vectors, is never trained
// as a whole, and has no size at which it becomes slow.

const (
	// IndexAbove is how many vectors a search compares one by one before its
	// place is worth an index.
	IndexAbove = 4096

	// MaxCell is how many vectors a cell holds before it is split.
	MaxCell = 128

	// meanCell is about how many it holds on average.
	meanCell = 85
)

// VectorPlace is the vectors that are searched together: those of one user's
// messages, or of a log without a user. Vectors of different dimensions, and
// those of different tenants, are never in one place.
type VectorPlace struct {
	Tenant, User string
	Log          int64 // 0 for the place of a user
	Dimensions   int
}

// PlaceOf is where the vectors of a log belong, whose user may be "".
func PlaceOf(tenant, user string, log int64, dimensions int) VectorPlace {
	if user != "" {
		log = 0
	}
	return VectorPlace{Tenant: tenant, User: user, Log: log, Dimensions: dimensions}
}

// Cells are the centres of a place, in memory. They may be used by several
// goroutines.
type Cells struct {
	mu      sync.RWMutex
	changed int64 // what is there of the stored cells; guarded by mu, as is what follows
	known   map[int64]*cell
	groups  []*cellGroup
}

type cell struct {
	id     int64
	centre []float32
}

// cellGroup holds cells that are near to each other, so that a search need not
// compare the centres of all cells.
type cellGroup struct {
	centre []float32
	cells  []*cell
}

const (
	maxGroup    = 128 // cells
	groupsToPut = 4   // are searched for the nearest cell of a vector
)

// CellCache keeps the cells of places in memory.
type CellCache struct {
	mu     sync.Mutex
	places map[int64]*Cells // guarded by mu
}

// maxCachedCells bounds the cells in memory: about 64 MB at 512 dimensions.
const maxCachedCells = 1 << 15

// Of returns the cells of a place, none at first. The number of a place is never
// given again.
func (k *CellCache) Of(place int64) *Cells {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.places[place]; known != nil {
		return known
	}
	held := 0
	for _, c := range k.places {
		held += c.Len()
	}
	if k.places == nil || held > maxCachedCells {
		k.places = map[int64]*Cells{}
	}
	k.places[place] = &Cells{}
	return k.places[place]
}

// Update brings the cells up to a state of the stored ones. Load calls put for
// every stored cell that has changed after a state.
func (c *Cells) Update(changed int64, load func(after int64, put func(id int64, centre Packed)) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed <= c.changed {
		return nil
	}
	if err := load(c.changed, c.put); err != nil {
		return err
	}
	c.changed = changed
	return nil
}

// put adds a cell or moves its centre.
func (c *Cells) put(id int64, packed Packed) {
	centre := packed.Unpack()
	if known := c.known[id]; known != nil { // a centre moves little
		known.centre = centre
		return
	}
	if c.known == nil {
		c.known = map[int64]*cell{}
	}
	if len(c.groups) == 0 {
		c.groups = []*cellGroup{{centre: centre}}
	}
	added := &cell{id: id, centre: centre}
	c.known[id] = added
	group := c.nearestGroups(centre, 1)[0]
	if group.cells = append(group.cells, added); len(group.cells) > maxGroup {
		c.splitGroup(group)
	}
}

func (c *Cells) splitGroup(g *cellGroup) {
	centres := make([][]float32, len(g.cells))
	for i, x := range g.cells {
		centres[i] = x.centre
	}
	first, second, inSecond := Split(centres)
	var left []*cell
	other := &cellGroup{centre: second}
	for i, x := range g.cells {
		if inSecond[i] {
			other.cells = append(other.cells, x)
		} else {
			left = append(left, x)
		}
	}
	g.centre, g.cells = first, left
	c.groups = append(c.groups, other)
}

// nearestGroups are the groups nearest to a vector, at most n.
func (c *Cells) nearestGroups(vector []float32, n int) []*cellGroup {
	if n >= len(c.groups) {
		return c.groups
	}
	return nearestOf(c.groups, n, func(g *cellGroup) float32 { return dot(g.centre, vector) })
}

// nearestOf returns the n items with the highest closeness, the closest first.
func nearestOf[T any](items []T, n int, closeness func(T) float32) []T {
	type measured struct {
		item T
		near float32
	}
	all := make([]measured, len(items))
	for i, item := range items {
		all[i] = measured{item, closeness(item)}
	}
	slices.SortStableFunc(all, func(a, b measured) int { return cmp.Compare(b.near, a.near) })
	best := make([]T, min(n, len(all)))
	for i := range best {
		best[i] = all[i].item
	}
	return best
}

// Nearest is the cell that a vector belongs to, 0 where there are no cells.
func (c *Cells) Nearest(vector []float32) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	best, id := float32(math.Inf(-1)), int64(0)
	for _, g := range c.nearestGroups(vector, groupsToPut) {
		for _, x := range g.cells {
			if near := dot(x.centre, vector); near > best || id == 0 {
				best, id = near, x.id
			}
		}
	}
	return id
}

// Order returns cells, the nearest to a vector first: at least n of them, or all.
func (c *Cells) Order(vector []float32, n int) []int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var near []*cell
	for _, g := range c.nearestGroups(vector, max(8*n/maxGroup, 2*groupsToPut)) {
		near = append(near, g.cells...)
	}
	if len(near) < n {
		near = near[:0]
		for _, g := range c.groups {
			near = append(near, g.cells...)
		}
	}
	near = nearestOf(near, len(near), func(x *cell) float32 { return dot(x.centre, vector) })
	ids := make([]int64, len(near))
	for i, x := range near {
		ids[i] = x.id
	}
	return ids
}

// Len is the number of cells.
func (c *Cells) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.known)
}

// Enough is how many vectors a search compares so that it finds nearly all of
// the nearest. It grows with the root of the number of vectors in the place.
func (c *Cells) Enough() int {
	return max(1024, int(4*math.Sqrt(float64(c.Len())*meanCell)))
}

// Worth reports whether it takes less to search the cells for some vectors of the
// place, which are so many, than to compare all of these.
func (c *Cells) Worth(some int) bool {
	return some*some > c.Enough()*c.Len()*meanCell
}

// splitRounds bounds how often the centres of a split are computed again.
const splitRounds = 8

// Split divides vectors of length 1 into two sets around two centres, neither of
// which is much smaller than the other. There are at least two vectors.
func Split(vectors [][]float32) (first, second []float32, inSecond []bool) {
	inSecond = make([]bool, len(vectors))
	first = farthest(vectors, centreOf(vectors, func(int) bool { return true }))
	second = farthest(vectors, first)
	count := 0
	for range splitRounds {
		moved := false
		count = 0
		for i, v := range vectors {
			in := dot(v, second) > dot(v, first)
			moved = moved || in != inSecond[i]
			if inSecond[i] = in; in {
				count++
			}
		}
		if !moved || count == 0 || count == len(vectors) {
			break
		}
		first, second = centreOf(vectors, func(i int) bool { return !inSecond[i] }), centreOf(vectors, func(i int) bool { return inSecond[i] })
	}
	if least := len(vectors) / 8; count <= least || count >= len(vectors)-least { // cut in the middle instead
		order := make([]int, len(vectors))
		for i := range order {
			order[i] = i
		}
		lean := func(i int) float32 { return dot(vectors[i], second) - dot(vectors[i], first) }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lean(a), lean(b)) })
		for at, i := range order {
			inSecond[i] = at >= len(order)/2
		}
	}
	return centreOf(vectors, func(i int) bool { return !inSecond[i] }), centreOf(vectors, func(i int) bool { return inSecond[i] }), inSecond
}

// farthest is the vector that is farthest from another.
func farthest(vectors [][]float32, from []float32) []float32 {
	return slices.MinFunc(vectors, func(a, b []float32) int { return cmp.Compare(dot(a, from), dot(b, from)) })
}

// centreOf is the mean direction of some vectors.
func centreOf(vectors [][]float32, of func(i int) bool) []float32 {
	sum := make([]float32, len(vectors[0]))
	for i, v := range vectors {
		if of(i) {
			for k, x := range v[:len(sum)] {
				sum[k] += x
			}
		}
	}
	if length := math.Sqrt(float64(dot(sum, sum))); length > 0 {
		for k := range sum {
			sum[k] /= float32(length)
		}
	}
	return sum
}

// dot is the inner product of two vectors of one dimension.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s, t, u, v float32
	for len(a) >= 4 && len(b) >= 4 {
		s += a[0] * b[0]
		t += a[1] * b[1]
		u += a[2] * b[2]
		v += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, x := range a {
		s += x * b[i]
	}
	return s + t + u + v
}
