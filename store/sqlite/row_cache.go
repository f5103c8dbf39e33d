package sqlite

import (
	"context"
	"errors"

	driver "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/store"
)

// rowCache holds rows as the writer's connection has written them, so that the
// next save of a session need not read its row again. It is emptied after
// another connection has written, which SQLite counts.
type rowCache struct {
	rows  map[store.Ref]row
	count uint32 // of writes to the database when the rows were written
}

const maxCached = 1024

// current returns a session's row, from the cache or from the database.
func (c *conn) current(ctx context.Context, r store.Ref) (row, error) {
	if w, ok := c.cache.rows[r]; ok {
		return w, nil
	}
	return c.mustFind(ctx, r)
}

// put caches a row that was just written. It is the last thing a request does,
// so a refused request leaves the cache as it was. The head was checked when it
// was read and is not checked again.
func (k *rowCache) put(r store.Ref, w row) {
	if len(k.rows) >= maxCached {
		clear(k.rows)
	}
	w.head.data = nil
	k.rows[r] = w
}

// drop removes the row of a session, or all rows for the zero ref.
func (k *rowCache) drop(r store.Ref) {
	if r == (store.Ref{}) {
		clear(k.rows)
		return
	}
	delete(k.rows, r)
}

// verify empties the cache if another connection has written since. SQLite knows
// that only inside a transaction.
func (c *conn) verify() {
	if count, err := c.writes(); err != nil || count != c.cache.count {
		clear(c.cache.rows)
	}
}

// committed records that the last write was this connection's own.
func (c *conn) committed() {
	var err error
	if c.cache.count, err = c.writes(); err != nil {
		clear(c.cache.rows)
	}
}

// writes counts the transactions that changed the database, as far as this
// connection has seen them.
func (c *conn) writes() (count uint32, err error) {
	err = c.raw.Raw(func(raw any) error {
		file, ok := raw.(driver.FileControl)
		if !ok {
			return errors.ErrUnsupported
		}
		count, err = file.FileControlDataVersion("main")
		return err
	})
	return count, err
}
