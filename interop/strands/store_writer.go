package strands

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// fileWriter writes the files of a run that is held here, one version after the
// other, until there is no newer one.
type fileWriter struct {
	next *session.Session // guarded by Store.mu; nil: there is no newer one
	done chan struct{}    // closed at the end
}

// holds reports a run that this store has locked with a token.
func (s *Store) holds(r store.Ref, token int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[r]
	return ok && h.token == token && h.unlock != nil
}

// queueFiles has the files of a version written soon. Of the versions that come
// while another is written only the newest is.
func (s *Store) queueFiles(saved session.Session) {
	if saved.Info().Kind != session.KindWorkflow {
		return
	}
	r := store.RefOf(saved)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.writers[r]; w != nil {
		if w.next == nil || w.next.Version() < saved.Version() {
			w.next = &saved
		}
		return
	}
	w := &fileWriter{next: &saved, done: make(chan struct{})}
	s.writers[r] = w
	go func() {
		defer close(w.done)
		for next := s.takeNext(r, w); next != nil; next = s.takeNext(r, w) {
			s.writeFiles(context.Background(), *next)
		}
	}()
}

// takeNext returns the version to write. Where there is none the writer is over.
func (s *Store) takeNext(r store.Ref, w *fileWriter) *session.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := w.next
	if w.next = nil; next == nil {
		delete(s.writers, r)
	}
	return next
}

// awaitFiles waits until the queued files of a run are written.
func (s *Store) awaitFiles(r store.Ref) {
	s.mu.Lock()
	w := s.writers[r]
	s.mu.Unlock()
	if w != nil {
		<-w.done
	}
}

// awaitAllFiles waits until all queued files are written.
func (s *Store) awaitAllFiles() {
	s.mu.Lock()
	var all []store.Ref
	for r := range s.writers {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		s.awaitFiles(r)
	}
}
