package file

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// bells wakes readers of this store. Writes of other processes, and of other
// stores on the same directory, ring nothing: a reader polls as well.
type bells struct {
	mu    sync.Mutex // guards hung
	hung  map[store.Ref]map[int]chan struct{}
	count int
}

// Bell rings after writes made through this Store.
func (s *Store) Bell(r store.Ref) (ring <-chan struct{}, stop func()) {
	b := &s.bells
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hung == nil {
		b.hung = map[store.Ref]map[int]chan struct{}{}
	}
	if b.hung[r] == nil {
		b.hung[r] = map[int]chan struct{}{}
	}
	b.count++
	number, bell := b.count, make(chan struct{}, 1)
	b.hung[r][number] = bell
	return bell, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.hung[r], number)
		if len(b.hung[r]) == 0 {
			delete(b.hung, r)
		}
	}
}

func (b *bells) ring(r store.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, bell := range b.hung[r] {
		select {
		case bell <- struct{}{}:
		default: // one ring is waiting already
		}
	}
}
