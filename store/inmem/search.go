package inmem

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Search reads everything that is to be searched. There is no index: what is
// found is right by construction, and other stores are measured by it.
func (s *Store) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if err := session.CheckTenant(tenant); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	var found []store.Passage
	for _, o := range q.Owners(tenant) {
		found = append(found, s.searchEntries(o, q)...)
	}
	seen := map[*byte]bool{} // changes that an earlier session shares
	for _, c := range s.searched(tenant, q) {
		hits, err := c.search(q)
		if err != nil {
			continue // it cannot be read
		}
		for _, h := range hits {
			if !seen[h.kept] {
				seen[h.kept] = true
				found = append(found, h.Passage)
			}
		}
	}
	return q.Rank(found), nil
}

func (s *Store) searchEntries(o store.Owner, q store.Search) []store.Passage {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	var found []store.Passage
	for key, m := range s.data.memories[o] {
		e, ok := m.entry(0)
		if !ok {
			continue
		}
		if n := q.Found(store.EntryWords(key, e.Value)); n >= q.Least {
			found = append(found, store.Passage{
				Owner: o, Key: key, Version: e.Version, Text: store.EntryText(e.Value), Found: n, At: e.UpdatedAt,
			})
		}
	}
	return found
}

// candidate is a session to be searched.
type candidate struct {
	id string
	row
}

// searched are the sessions whose transcripts a search is about: the one it
// names first, then those of its user by id.
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
		if r.ID == q.Session || q.User != "" && info.UserID == q.User {
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

// hit is a passage and the place of the change that made it, which a session
// and its forks share.
type hit struct {
	store.Passage
	kept *byte
}

// search finds the messages of a session that hold the words.
func (c candidate) search(q store.Search) ([]hit, error) {
	s, err := c.current(c.id)
	if err != nil {
		return nil, err
	}
	tail, err := decodeRecords(c.id, c.tail)
	if err != nil {
		return nil, err
	}
	if s, err = s.WithTail(tail); err != nil {
		return nil, err
	}
	spans := s.Spans()
	changes := append(c.log.between(0, math.MaxInt64, math.MaxInt), markDiscarded(c.log.last()+1, slices.Clone(c.tail))...)
	var hits []hit
	for i, kept := range changes {
		seq := int64(i + 1)
		if kept.kind != messageAdded || kept.discarded || !q.Cleared && !session.Holds(spans, seq) {
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
		text := store.MessageText(added.Message)
		if n := q.Found(text); n >= q.Least {
			p := store.Passage{SessionID: c.id, Seq: seq, MessageID: added.Message.ID, Text: text, Found: n, At: added.Message.CreatedAt}
			hits = append(hits, hit{p, &kept.data[0]})
		}
	}
	return hits, nil
}
