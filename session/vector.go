package session

import "iter"

const (
	vectorBits  = 5
	vectorWidth = 1 << vectorBits
)

// vector is a persistent list: append returns a new vector that shares all but
// the last few elements with the old one, and neither ever sees the other's
// additions. Appending is amortised O(1), reading an index O(log32 n).
type vector[T any] struct {
	n     int
	shift uint // height of root in bits; meaningful when root is not nil
	root  *vectorNode[T]
	tail  []T // the last 1..32 elements
}

// vectorNode is either a branch (kids) or a leaf (items), always full to the left.
type vectorNode[T any] struct {
	kids  []*vectorNode[T]
	items []T
}

func vectorOf[T any](items []T) vector[T] {
	var v vector[T]
	for len(items) > vectorWidth {
		v = v.pushLeaf(append([]T(nil), items[:vectorWidth]...))
		items = items[vectorWidth:]
	}
	v.tail = append([]T(nil), items...)
	v.n += len(items)
	return v
}

func (v vector[T]) len() int { return v.n }

func (v vector[T]) append(x T) vector[T] {
	if len(v.tail) < vectorWidth {
		tail := make([]T, len(v.tail)+1)
		copy(tail, v.tail)
		tail[len(v.tail)] = x
		return vector[T]{n: v.n + 1, shift: v.shift, root: v.root, tail: tail}
	}
	full := vector[T]{n: v.n - vectorWidth, shift: v.shift, root: v.root}
	next := full.pushLeaf(v.tail)
	next.tail = []T{x}
	next.n++
	return next
}

// pushLeaf adds a full leaf to the tree. The receiver has no tail; the leaf is
// owned by the tree from here on.
func (v vector[T]) pushLeaf(leaf []T) vector[T] {
	index := v.n // of the leaf's first element
	v.n += vectorWidth
	switch {
	case v.root == nil:
		v.root = &vectorNode[T]{items: leaf}
		v.shift = 0
	case index == vectorWidth<<v.shift: // the tree is full: one level more
		v.root = &vectorNode[T]{kids: []*vectorNode[T]{v.root, leafPath(v.shift, leaf)}}
		v.shift += vectorBits
	default:
		v.root = v.root.with(v.shift, index, leaf)
	}
	return v
}

func leafPath[T any](shift uint, leaf []T) *vectorNode[T] {
	if shift == 0 {
		return &vectorNode[T]{items: leaf}
	}
	return &vectorNode[T]{kids: []*vectorNode[T]{leafPath(shift-vectorBits, leaf)}}
}

func (d *vectorNode[T]) with(shift uint, index int, leaf []T) *vectorNode[T] {
	slot := index >> shift & (vectorWidth - 1)
	kids := make([]*vectorNode[T], slot+1)
	copy(kids, d.kids)
	if slot < len(d.kids) {
		kids[slot] = d.kids[slot].with(shift-vectorBits, index, leaf)
	} else {
		kids[slot] = leafPath(shift-vectorBits, leaf)
	}
	return &vectorNode[T]{kids: kids}
}

func (v vector[T]) at(i int) T {
	start := v.n - len(v.tail)
	if i >= start {
		return v.tail[i-start]
	}
	d := v.root
	for shift := v.shift; d.items == nil; shift -= vectorBits {
		d = d.kids[i>>shift&(vectorWidth-1)]
	}
	return d.items[i&(vectorWidth-1)]
}

func (v vector[T]) all() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range v.n {
			if !yield(i, v.at(i)) {
				return
			}
		}
	}
}
