package store

import (
	"maps"
	"slices"
	"sync"
)

// Bells are the readers of one store that wait for news of a session. The zero
// value is ready to use.
type Bells struct {
	mu      sync.Mutex
	waiting map[Ref]map[chan struct{}]bool // guarded by mu
}

// Bell adds a reader, as Wakes promises. The session need not exist yet.
func (b *Bells) Bell(r Ref) (ring <-chan struct{}, stop func()) {
	bell := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[Ref]map[chan struct{}]bool{}
	}
	if b.waiting[r] == nil {
		b.waiting[r] = map[chan struct{}]bool{}
	}
	b.waiting[r][bell] = true
	return bell, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting[r], bell)
		if len(b.waiting[r]) == 0 {
			delete(b.waiting, r)
		}
	}
}

// Ring wakes the readers of sessions, and those of every session. A reader that has not taken its last
// ring gets no second one.
func (b *Bells) Ring(refs ...Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(refs) > 0 {
		b.ring(Ref{})
	}
	for _, r := range refs {
		b.ring(r)
	}
}

func (b *Bells) ring(r Ref) {
	for bell := range b.waiting[r] {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// Refs lists the sessions that somebody waits for.
func (b *Bells) Refs() []Ref {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.waiting))
}

// Empty reports that nobody waits.
func (b *Bells) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) == 0
}
