package inmem

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Search reads every searched text. There is no index, so the result is right by
// construction, and tests compare other stores with it.
func (s *Store) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	var found []store.Passage
	consider := func(h hit, text string) {
		if h.Found = q.Found(text); h.Found >= q.Least {
			found = append(found, h.Passage)
		}
	}
	for _, o := range q.Owners(tenant) {
		for _, h := range s.entriesOf(o) {
			consider(h, h.Key+"\n"+h.Text)
		}
	}
	for h := range s.messages(tenant, q) {
		consider(h, h.Text)
	}
	return q.Rank(found), nil
}

// entriesOf are the newest entries of an owner.
func (s *Store) entriesOf(o store.Owner) []hit {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	var found []hit
	for key, m := range s.data.memories[o] {
		if e, ok := m.entry(0); ok {
			p := store.Passage{Owner: o, Key: key, Version: e.Version, Text: store.EntryText(e.Value), At: e.UpdatedAt}
			found = append(found, hit{p, m.newest})
		}
	}
	return found
}

// messages yields the messages of all searched transcripts, each once, for the
// first session that holds it.
func (s *Store) messages(tenant string, q store.Search) iter.Seq[hit] {
	return func(yield func(hit) bool) {
		seen := map[*passage]bool{} // in an earlier session
		for _, c := range s.searched(tenant, q) {
			hits, err := c.transcript(q)
			if err != nil {
				continue // it cannot be read
			}
			for _, h := range hits {
				if seen[h.passage] {
					continue
				}
				seen[h.passage] = true
				if !yield(h) {
					return
				}
			}
		}
	}
}

// candidate is a session to be searched.
type candidate struct {
	id string
	row
}

// searched returns the searched sessions: first the one the search names, then
// those of its user, or all, by id.
func (s *Store) searched(tenant string, q store.Search) []candidate {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	var list []candidate
	for r, w := range s.data.rows {
		if r.Tenant != tenant {
			continue
		}
		info, err := w.info(r.ID)
		if err != nil || info.Status == session.Deleted {
			continue
		}
		if user, several := q.OfUser(); r.ID == q.Session || several && (q.Everywhere || info.UserID == user) {
			list = append(list, candidate{r.ID, *w})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		switch q.Session {
		case a.id:
			return -1
		case b.id:
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
	return list
}

// hit is a found passage, with what a session and its forks share of it.
type hit struct {
	store.Passage
	passage *passage
}

// transcript returns the messages of a session that a search may find.
func (c candidate) transcript(q store.Search) ([]hit, error) {
	s, err := c.current(c.id)
	if err != nil {
		return nil, err
	}
	tail, err := decodeRecords(c.id, c.tail)
	if err != nil {
		return nil, err
	}
	if s, err = session.ApplyTail(s, tail); err != nil {
		return nil, err
	}
	spans := session.Spans(s)
	changes := append(c.log.between(0, math.MaxInt64, math.MaxInt), markDiscarded(c.log.last()+1, slices.Clone(c.tail))...)
	var hits []hit
	for i, kept := range changes {
		seq := int64(i + 1)
		if kept.kind != messageAdded || kept.discarded || kept.passage.forgotten.Load() || !q.Cleared && !session.Holds(spans, seq) {
			continue
		}
		r, err := decodeRecord(c.id, kept.data)
		if err != nil {
			return nil, err
		}
		added, ok := r.Change.(session.MessageAdded)
		if !ok || added.Message.Trace && !q.Trace {
			continue
		}
		p := store.Passage{
			SessionID: c.id, Seq: seq, MessageID: added.Message.ID, Text: store.MessageText(added.Message), At: added.Message.CreatedAt,
		}
		hits = append(hits, hit{p, kept.passage})
	}
	return hits, nil
}
