package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Posting locks the session's row before it adds the item. So of a post and a
// save (or a release) at the same time, the second one sees what the first did,
// and items arrive in the order of their numbers.
const (
	countPost  = `UPDATE sessions SET posts = posts + 1 WHERE tenant = @tenant AND id = @id RETURNING sid`
	insertItem = `INSERT INTO inbox (sid, item_id, body, tenant, posted_at)
		SELECT sid, @item::text, @body::bytea, tenant, ` + dbNow + ` FROM sessions WHERE tenant = @tenant AND id = @id ON CONFLICT (sid, item_id) DO NOTHING`
)

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
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	args := pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "item": it.ID, "body": withSum(raw, it.ID), "now": s.clock()}
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error { // the same item twice is one
		var batch pgx.Batch
		batch.Queue(countPost, args)
		batch.Queue(insertItem, args)
		s.config.OnWrite("before post")
		results := conn.SendBatch(ctx, &batch)
		var sid int64
		err := closeBatch(results, found(r, results.QueryRow().Scan(&sid)))
		s.config.OnWrite("after post")
		return err
	})
	if err == nil {
		s.announce(r)
	}
	return err
}

// unread is the SQL condition of an item that was not taken.
const unread = `NOT i.taken`

// Inbox reads what is not taken.
func (s *Store) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return nil, err
	}
	var rows []arrived
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err := conn.Query(ctx, `WITH s AS MATERIALIZED (SELECT sid FROM sessions WHERE tenant = @tenant AND id = @id)
			SELECT 0::bigint AS arrival, '' AS item_id, ''::bytea AS body FROM s
			UNION ALL SELECT i.arrival, i.item_id, i.body FROM s JOIN inbox i ON i.sid = s.sid WHERE `+unread+` ORDER BY arrival`,
			pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID})
		if err == nil {
			rows, err = pgx.CollectRows(found, pgx.RowToStructByPos[arrived])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, session.NotFound(r.ID)
	}
	var items []store.Item
	for _, row := range rows[1:] {
		it, err := row.item()
		if err != nil {
			return nil, store.Unreadable(r.ID, "inbox", err)
		}
		items = append(items, it)
	}
	return items, nil
}

// arrived is an item as it is stored.
type arrived struct {
	Arrival int64
	ItemID  string
	Body    []byte
}

func (a arrived) item() (it store.Item, err error) {
	raw, err := checked(a.Body, a.ItemID)
	if err == nil {
		err = json.Unmarshal(raw, &it)
	}
	if err != nil {
		return it, fmt.Errorf("item %s: %w", a.ItemID, err)
	}
	return it, nil
}
