package store

import (
	"maps"
	"slices"
	"sync"
)

// Subscribers are the readers of one store that wait for news of a session. The zero
// value is ready to use.
type Subscribers struct {
	mu      sync.Mutex
	waiting map[Ref]map[chan struct{}]bool // guarded by mu
}

// Subscribe adds a reader, as Wakes promises. The session need not exist yet.
func (s *Subscribers) Subscribe(r Ref) (news <-chan struct{}, stop func()) {
	signal := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[Ref]map[chan struct{}]bool{}
	}
	if s.waiting[r] == nil {
		s.waiting[r] = map[chan struct{}]bool{}
	}
	s.waiting[r][signal] = true
	return signal, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting[r], signal)
		if len(s.waiting[r]) == 0 {
			delete(s.waiting, r)
		}
	}
}

// Notify wakes the readers of sessions, and those of every session. A reader
// that has not taken its last signal gets no second one.
func (s *Subscribers) Notify(refs ...Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(refs) > 0 {
		s.wake(Ref{})
	}
	for _, r := range refs {
		s.wake(r)
	}
}

func (s *Subscribers) wake(r Ref) {
	for signal := range s.waiting[r] {
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// Refs lists the sessions that somebody waits for.
func (s *Subscribers) Refs() []Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.waiting))
}

// Empty reports that nobody waits.
func (s *Subscribers) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) == 0
}
