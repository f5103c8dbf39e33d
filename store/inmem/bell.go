package inmem

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// bells are the waiting readers of all sessions.
type bells struct {
	mu      sync.Mutex
	waiting map[store.Ref]map[chan struct{}]bool // guarded by mu
}

// ring wakes the readers of a session. One that has not come for its last
// ring gets no second.
func (b *bells) ring(r store.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for bell := range b.waiting[r] {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// Bell rings after writes to a session, which need not exist yet.
func (s *Store) Bell(r store.Ref) (<-chan struct{}, func()) {
	b := &s.data.bells
	bell := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[store.Ref]map[chan struct{}]bool{}
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
