package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

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
func (s *Store) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	var unread []store.Item
	err := s.readMark(ctx, r, func(ctx context.Context, c *conn, w row) error {
		return c.each(ctx, "SELECT id, data, sum FROM inbox WHERE log = ? AND taken = 0 ORDER BY n", []any{w.log}, func(rows *rows) error {
			var id string
			var raw sql.RawBytes
			var sum int64
			if err := rows.Scan(&id, &raw, &sum); err != nil {
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
	return unread, err
}
