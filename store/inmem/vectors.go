package inmem

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// passage holds the vectors of a message, or of the newest version of an entry.
// It is stored with the text: sessions that share a message share its passage,
// and it is deleted with them.
type passage struct {
	number  int64                   // in the order they were written; its token
	vectors map[string]store.Packed // by embedder, nil for what cannot be embedded; guarded by data.mu

	forgotten atomic.Bool // it was taken out of search
}

func (d *data) newPassage() *passage {
	return &passage{number: d.passages.Add(1), vectors: map[string]store.Packed{}}
}

// waiting is a passage and what its text is made of.
type waiting struct {
	*passage
	text func() string
}

// inForce returns all passages, each once, in no order. The caller holds the
// lock.
func (d *data) inForce() []waiting {
	var all []waiting
	seen := map[*passage]bool{}
	add := func(c change) {
		if c.kind == messageAdded && !c.discarded && !seen[c.passage] && !c.passage.forgotten.Load() {
			seen[c.passage] = true
			all = append(all, waiting{c.passage, c.text})
		}
	}
	for _, w := range d.rows {
		for _, p := range w.log.parts() {
			for _, seq := range p.messages {
				add(p.changes[seq-p.after-1])
			}
		}
		for _, c := range markDiscarded(w.log.last()+1, slices.Clone(w.tail)) {
			add(c)
		}
	}
	for _, owned := range d.memories {
		for key, m := range owned {
			if e, ok := m.entry(0); ok {
				all = append(all, waiting{m.newest, func() string { return store.EntryWords(key, e.Value) }})
			}
		}
	}
	return all
}

// text is that of a message, "" where it cannot be read.
func (c change) text() string {
	r, err := decodeRecord("", c.data)
	added, ok := r.Change.(session.MessageAdded)
	if err != nil || !ok {
		return ""
	}
	return store.MessageText(added.Message)
}

// Unembedded lists passages without a vector.
func (s *Store) Unembedded(ctx context.Context, embedder string, limit int) ([]store.Unembedded, error) {
	if err := s.usable(ctx, store.CheckEmbedder(embedder)); err != nil {
		return nil, err
	}
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	s.data.mu.Lock()
	all := unembedded(s.data.inForce(), embedder)
	s.data.mu.Unlock()
	return listWaiting(all, limit), nil
}

// UnembeddedOf lists messages of a session without a vector.
func (s *Store) UnembeddedOf(ctx context.Context, r store.Ref, embedder string, limit int) ([]store.Unembedded, error) {
	if err := s.usable(ctx, r.Check(), store.CheckEmbedder(embedder)); err != nil {
		return nil, err
	}
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	s.data.mu.Lock()
	var all []waiting
	if w := s.data.rows[r]; w != nil {
		for _, c := range append(w.log.between(0, math.MaxInt64, math.MaxInt), markDiscarded(w.log.last()+1, slices.Clone(w.tail))...) {
			if c.kind == messageAdded && !c.discarded && !c.passage.forgotten.Load() {
				all = append(all, waiting{c.passage, c.text})
			}
		}
	}
	all = unembedded(all, embedder)
	s.data.mu.Unlock()
	return listWaiting(all, limit), nil
}

// unembedded leaves out the passages that have a vector. The caller holds the
// lock.
func unembedded(all []waiting, embedder string) []waiting {
	return slices.DeleteFunc(all, func(w waiting) bool {
		_, done := w.vectors[embedder]
		return done
	})
}

// listWaiting lists the first passages that have a text.
func listWaiting(all []waiting, limit int) []store.Unembedded {
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Compare(a.number, b.number) })
	var list []store.Unembedded
	for _, w := range all {
		if len(list) == limit {
			break
		}
		if text := w.text(); text != "" {
			list = append(list, store.Unembedded{Token: strconv.FormatInt(w.number, 10), Text: text})
		}
	}
	return list
}

// Embedded keeps vectors.
func (s *Store) Embedded(ctx context.Context, embedder string, vectors []store.Embedding) error {
	if err := s.usable(ctx, store.CheckEmbedder(embedder)); err != nil {
		return err
	}
	given := map[int64]store.Packed{}
	for _, e := range vectors {
		if err := e.Check(); err != nil {
			return err
		}
		number, err := strconv.ParseInt(e.Token, 10, 64)
		if err != nil {
			return &session.InvalidError{Field: "token", Reason: fmt.Sprintf("%q names no passage", e.Token)}
		}
		given[number] = e.Pack()
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	for _, w := range s.data.inForce() {
		if vector, ok := given[w.number]; ok {
			w.vectors[embedder] = vector
		}
	}
	return nil
}

// Nearest compares every vector in the searched places, as Search reads every
// text.
func (s *Store) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	best := q.Nearest()
	consider := func(h hit) {
		s.data.mu.Lock()
		vector := h.passage.vectors[q.Embedder]
		s.data.mu.Unlock()
		if score, part, ok := vector.Score(q.Vector); ok {
			h.Score, h.Part = score, part
			best.Add(h.Passage)
		}
	}
	for _, o := range q.Owners(tenant) {
		for _, h := range s.entriesOf(o) {
			consider(h)
		}
	}
	for h := range s.messages(tenant, q.Search) {
		consider(h)
	}
	return best.Best(), nil
}
