package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// Post adds an item to a session's inbox. Taken items stay in the table, so that
// a used id is recognised.
func (s *Store) Post(ctx context.Context, r store.Ref, item store.Item) error {
	item, err := item.Check()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("encode inbox item %s: %w", item.ID, err)
	}
	return s.writeSession(ctx, r, func(ctx context.Context, c *conn, w row) error {
		_, err := c.exec(ctx, "INSERT INTO inbox (log, id, data, sum, tenant, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			w.log, item.ID, raw, itemSum(w.log, item.ID, raw), r.Tenant, micros(s.now()))
		return err
	})
}

// takeItem marks an item as taken by a change.
func (c *conn) takeItem(ctx context.Context, log int64, ch change) error {
	n, err := c.exec(ctx, "UPDATE inbox SET taken = ? WHERE log = ? AND id = ? AND taken = 0", ch.seq, log, ch.itemID)
	if err == nil && n == 0 {
		err = admission.ItemTaken(ch.itemID)
	}
	return err
}

// Inbox reads what is not taken.
func (s *Store) Inbox(ctx context.Context, r store.Ref) (unread []store.Item, err error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return nil, err
	}
	found := false
	err = s.readOnce(ctx, func(ctx context.Context, c *conn) error {
		return c.each(context.WithoutCancel(ctx), "SELECT "+selectMark+`, i.id, i.data, i.sum FROM sessions s LEFT JOIN inbox i ON i.log = s.log AND i.taken = 0
WHERE s.tenant = ? AND s.id = ? ORDER BY i.n`, []any{r.Tenant, r.ID}, func(rows *rows) error {
			found = true
			var w row
			if err := w.scanMark(r, rows); err != nil || rows.values[markColumns] == nil {
				return err // there is no item
			}
			var id string
			var raw []byte
			var sum int64
			if err := scan(rows.values[markColumns:], []any{&id, &raw, &sum}); err != nil {
				return scanError(r.ID, "inbox", err)
			}
			var item store.Item
			err := json.Unmarshal(raw, &item)
			if err == nil && itemSum(w.log, id, raw) != sum {
				err = fmt.Errorf("item %s does not match its checksum", id)
			}
			if err != nil {
				return store.Unreadable(r.ID, "inbox", err)
			}
			unread = append(unread, item)
			return nil
		})
	})
	if err == nil && !found {
		err = session.NotFound(r.ID)
	}
	if err != nil {
		return nil, err
	}
	return unread, nil
}
