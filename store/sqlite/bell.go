package sqlite

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// bells are the waiting readers of all sessions.
type bells struct {
	mu   sync.Mutex // guards hung
	hung map[store.Ref]map[chan struct{}]bool
}

func newBells() *bells { return &bells{hung: map[store.Ref]map[chan struct{}]bool{}} }

// Bell rings after writes to a session, which need not exist yet. A write
// through this Store rings at once. That of another process is noticed within
// a moment, and then every bell rings: the file does not say what was written.
func (s *Store) Bell(r store.Ref) (ring <-chan struct{}, stop func()) {
	b, bell := s.bells, make(chan struct{}, 1)
	b.mu.Lock()
	if b.hung[r] == nil {
		b.hung[r] = map[chan struct{}]bool{}
	}
	b.hung[r][bell] = true
	b.mu.Unlock()
	s.writer.nudge() // it watches other processes while somebody listens
	return bell, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.hung[r], bell)
		if len(b.hung[r]) == 0 {
			delete(b.hung, r)
		}
	}
}

func (b *bells) listening() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.hung) > 0
}

func (b *bells) ring(r store.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ringEach(b.hung[r])
}

func (b *bells) ringAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, hung := range b.hung {
		ringEach(hung)
	}
}

// ringEach rings. A reader that has not come for its last ring gets no second.
func ringEach(hung map[chan struct{}]bool) {
	for bell := range hung {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}
