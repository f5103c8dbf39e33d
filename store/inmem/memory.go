package inmem

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// memory is one key of an owner. It stays when its entry is forgotten, so that
// versions continue and no tool call writes twice.
type memory struct {
	last   int64                 // newest version there ever was
	kept   map[int64]store.Entry // by version, empty when forgotten
	newest *passage              // of the newest version
	calls  map[toolCall]int64    // what each wrote
}

// toolCall is a call's session and id, because models number their calls anew in
// each session.
type toolCall struct{ sessionID, callID string }

// current is the version that is there, 0 for none.
func (m *memory) current() int64 {
	if len(m.kept) == 0 {
		return 0
	}
	return m.last
}

// entry is a copy of a version, 0 for the newest.
func (m *memory) entry(version int64) (store.Entry, bool) {
	if version == 0 {
		version = m.last
	}
	e, ok := m.kept[version]
	e.Value, e.Labels = bytes.Clone(e.Value), e.Labels.Clone()
	return e, ok
}

// withMemories calls look with an owner's memories by key, under the lock. Look
// may change the map, in which all keys are present.
func (s *Store) withMemories(ctx context.Context, o store.Owner, keys []string, look func(map[string]*memory) error) error {
	if err := s.usable(ctx, o.Check()); err != nil {
		return err
	}
	for _, key := range keys {
		if err := store.CheckEntryKey(key); err != nil {
			return err
		}
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	owned := s.data.memories[o]
	if owned == nil {
		owned = map[string]*memory{}
		s.data.memories[o] = owned
	}
	for _, key := range keys {
		if owned[key] == nil {
			owned[key] = &memory{kept: map[int64]store.Entry{}, calls: map[toolCall]int64{}}
		}
	}
	return look(owned)
}

// Remember writes the next version of an entry.
func (s *Store) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	memo, err := memo.Check()
	if err != nil {
		return store.Entry{}, err
	}
	var written store.Entry
	err = s.withMemories(ctx, o, []string{memo.Key}, func(owned map[string]*memory) error {
		m, call := owned[memo.Key], toolCall{memo.SessionID, memo.CallID}
		if version, done := m.calls[call]; done {
			written, err = admission.RepeatedEntry(memo.Key, version, func(version int64) (store.Entry, bool, error) {
				e, ok := m.entry(version)
				return e, ok, nil
			})
			return err
		}
		if err := admission.CheckEntryVersion(memo.Key, memo.IfVersion, m.current()); err != nil {
			return err
		}
		created := memo.At
		if before, ok := m.entry(0); ok {
			created = before.CreatedAt
		}
		m.last++
		m.newest = s.data.newPassage()
		m.kept[m.last] = store.Entry{
			Key: memo.Key, Value: memo.Value, Labels: memo.Labels, Version: m.last, CreatedAt: created, UpdatedAt: memo.At, SessionID: memo.SessionID,
		}
		if memo.CallID != "" {
			m.calls[call] = m.last
		}
		written, _ = m.entry(m.last)
		return nil
	})
	return written, err
}

// Entry reads an entry.
func (s *Store) Entry(ctx context.Context, o store.Owner, key string, version int64) (store.Entry, bool, error) {
	var e store.Entry
	var ok bool
	err := s.withMemories(ctx, o, []string{key}, func(owned map[string]*memory) error {
		e, ok = owned[key].entry(version)
		return nil
	})
	return e, ok, err
}

// Entries reads the newest versions in the order of their keys.
func (s *Store) Entries(ctx context.Context, o store.Owner, prefix, after string, limit int) ([]store.Entry, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		if err := store.CheckEntryKey(prefix); err != nil {
			return nil, err
		}
	}
	var page []store.Entry
	err = s.withMemories(ctx, o, nil, func(owned map[string]*memory) error {
		for _, key := range slices.Sorted(maps.Keys(owned)) {
			if len(page) == limit {
				break
			}
			if e, ok := owned[key].entry(0); ok && key > after && store.Covers(prefix, key) {
				page = append(page, e)
			}
		}
		return nil
	})
	return page, err
}

// Expired lists what has expired.
func (s *Store) Expired(ctx context.Context, tenant string, at time.Time, limit int) ([]store.OwnedEntry, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	var expired []store.OwnedEntry
	for o, owned := range s.data.memories {
		for _, m := range owned {
			if e, ok := m.entry(0); ok && o.Tenant == tenant && e.Labels.Expired(at) {
				expired = append(expired, store.OwnedEntry{Owner: o, Entry: e})
			}
		}
	}
	slices.SortFunc(expired, func(a, b store.OwnedEntry) int {
		return cmp.Or(a.Labels.ExpiresAt.Compare(*b.Labels.ExpiresAt), cmp.Compare(a.Owner.Name, b.Owner.Name), cmp.Compare(a.Key, b.Key))
	})
	return expired[:min(limit, len(expired))], nil
}

// Forget removes every version of an entry.
func (s *Store) Forget(ctx context.Context, o store.Owner, key string, ifVersion *int64) (bool, error) {
	var there bool
	err := s.withMemories(ctx, o, []string{key}, func(owned map[string]*memory) error {
		m := owned[key]
		if err := admission.CheckEntryVersion(key, ifVersion, m.current()); err != nil {
			return err
		}
		there = m.current() != 0
		clear(m.kept)
		return nil
	})
	return there, err
}

// ForgetAll removes all entries of an owner and all that is known of them.
func (s *Store) ForgetAll(ctx context.Context, o store.Owner, dry bool) (int, error) {
	n := 0
	err := s.withMemories(ctx, o, nil, func(owned map[string]*memory) error {
		for _, m := range owned {
			if m.current() != 0 {
				n++
			}
		}
		if !dry {
			delete(s.data.memories, o)
		}
		return nil
	})
	return n, err
}

// ForgetTranscripts takes what was said in the sessions of a user out of search.
func (s *Store) ForgetTranscripts(ctx context.Context, tenant, user string, dry bool) (int, error) {
	if err := s.usable(ctx, store.Owner{Tenant: tenant, Scope: store.ScopeUser, Name: user}.Check()); err != nil {
		return 0, err
	}
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	n := 0
	for r, w := range s.data.rows {
		if info, err := w.info(r.ID); err != nil || r.Tenant != tenant || info.UserID != user {
			continue
		}
		n++
		for _, c := range append(w.log.between(0, math.MaxInt64, math.MaxInt), w.tail...) {
			if c.kind == messageAdded && !dry {
				c.passage.forgotten.Store(true)
			}
		}
	}
	return n, nil
}
