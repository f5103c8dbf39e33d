package inmem

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// inbox is a session's queue. A taken item stays in it until the change that took
// it is sealed, so that a discarded tail can give it back in its old place.
type inbox struct {
	items []item
	seen  map[string]bool // every id that ever came
}

type item struct {
	id    string
	data  []byte // store.Item
	at    time.Time
	taken int64 // number of the change in the tail that took it, 0: unread
}

// apply takes and gives back items as the changes say: all of them or, with an
// InvalidError, none. The changes are numbered from first on.
func (b *inbox) apply(first int64, changes []change) error {
	if !slices.ContainsFunc(changes, func(c change) bool { return c.kind == inboxTaken || c.kind == tailDiscarded }) {
		return nil
	}
	items := slices.Clone(b.items)
	for n, c := range changes {
		switch c.kind {
		case inboxTaken:
			i := slices.IndexFunc(items, func(it item) bool { return it.id == c.itemID && it.taken == 0 })
			if i < 0 {
				return admission.ItemTaken(c.itemID)
			}
			items[i].taken = first + int64(n)
		case tailDiscarded:
			for i, it := range items {
				if it.taken >= c.covers.From && it.taken <= c.covers.To {
					items[i].taken = 0
				}
			}
		}
	}
	b.items = items
	return nil
}

// dropTaken removes taken items, whose changes a version holds now.
func (b *inbox) dropTaken() {
	if b.unread() < len(b.items) {
		b.items = slices.DeleteFunc(slices.Clone(b.items), func(it item) bool { return it.taken != 0 })
	}
}

func (b *inbox) unread() int {
	n := 0
	for _, it := range b.items {
		if it.taken == 0 {
			n++
		}
	}
	return n
}

// Post adds an item to a session's inbox.
func (s *Store) Post(ctx context.Context, r store.Ref, it store.Item) error {
	it, err := it.Check()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(it)
	if err != nil {
		return err
	}
	return s.write(ctx, r, func(w *row) error {
		if w.inbox.seen[it.ID] {
			return nil
		}
		if w.inbox.seen == nil {
			w.inbox.seen = map[string]bool{}
		}
		w.inbox.seen[it.ID] = true
		w.inbox.items = append(w.inbox.items, item{id: it.ID, data: raw, at: s.data.now()})
		return nil
	})
}

// Inbox reads what is not taken.
func (s *Store) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	var kept []item
	err := s.read(ctx, r, func(w *row) error {
		kept = slices.Clone(w.inbox.items)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var unread []store.Item
	for _, k := range kept {
		if k.taken != 0 {
			continue
		}
		var it store.Item
		if err := json.Unmarshal(k.data, &it); err != nil {
			return nil, store.Unreadable(r.ID, "inbox", err)
		}
		unread = append(unread, it)
	}
	return unread, nil
}
