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

// MakeNewer raises the format version of what is kept of a session.
func (s *Store) MakeNewer(r store.Ref) {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	w := s.data.rows[r]
	for _, kept := range []*[]byte{&w.head, &w.header} {
		*kept = bytes.Replace(*kept, []byte(`"formatVersion":1`), []byte(`"formatVersion":999`), 1)
	}
}
