package inmem

import (
	"bytes"

	"github.com/holdfast-dev/holdfast/store"
)

// Damage cuts the kept bytes of a session short.
func (s *Store) Damage(r store.Ref) {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	w := s.data.rows[r]
	w.head, w.header = bytes.Clone(w.head[:len(w.head)/2]), bytes.Clone(w.header[:len(w.header)/2])
}

// MakeNewer raises the format version of a session's head and adds a field to
// its header that only a newer program knows.
func (s *Store) MakeNewer(r store.Ref) {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	w := s.data.rows[r]
	w.head = bytes.Replace(w.head, []byte(`"formatVersion":1`), []byte(`"formatVersion":999`), 1)
}
