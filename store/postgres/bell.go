package postgres

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// bells are the waiting readers of this store.
type bells struct {
	mu   sync.Mutex
	hung map[store.Ref]map[chan struct{}]bool // guarded by mu
}

// Bell rings after writes made through this store at once, after those of
// other nodes as soon as the database tells of them or they are found.
func (s *Store) Bell(r store.Ref) (ring <-chan struct{}, stop func()) {
	s.ear.open()
	b := &s.bells
	bell := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hung == nil {
		b.hung = map[store.Ref]map[chan struct{}]bool{}
	}
	if b.hung[r] == nil {
		b.hung[r] = map[chan struct{}]bool{}
	}
	b.hung[r][bell] = true
	return bell, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.hung[r], bell)
		if len(b.hung[r]) == 0 {
			delete(b.hung, r)
		}
	}
}

// ring wakes the readers of a session. One that has not come for its last
// ring gets no second.
func (b *bells) ring(refs ...store.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range refs {
		for bell := range b.hung[r] {
			select {
			case bell <- struct{}{}:
			default:
			}
		}
	}
}

// refs are the sessions with a bell.
func (b *bells) refs() []store.Ref {
	b.mu.Lock()
	defer b.mu.Unlock()
	refs := make([]store.Ref, 0, len(b.hung))
	for r := range b.hung {
		refs = append(refs, r)
	}
	return refs
}

// ring tells the readers of a session here, and soon those of other nodes.
func (s *Store) ring(r store.Ref) {
	s.bells.ring(r)
	s.notices.add(r)
	s.index.want(r)
}
