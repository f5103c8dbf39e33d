package sqlite

import (
	"context"
	"errors"

	driver "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/store"
)

// known are rows as the writer's connection has left them, so that the next
// save of a session need not read its row again. They are of no use once
// another connection has written, which SQLite counts.
type known struct {
	rows  map[store.Ref]row
	count uint32 // of writes to the database when the rows were right
}

const maxKnown = 1024

// current is a session's row: as it is known, or else as it is found.
func (c *conn) current(ctx context.Context, r store.Ref) (row, error) {
	if w, ok := c.known.rows[r]; ok {
		return w, nil
	}
	return c.mustFind(ctx, r)
}

// put keeps a row as it was just written; it is the last thing a request does,
// so that what is refused leaves the row as it was known. Its head was checked
// when it was read and needs no second look.
func (k *known) put(r store.Ref, w row) {
	if len(k.rows) >= maxKnown {
		clear(k.rows)
	}
	w.head.data = nil
	k.rows[r] = w
}

// drop is for requests that may alter more than they tell: of one session, or
// of any where none is named.
func (k *known) drop(r store.Ref) {
	if r == (store.Ref{}) {
		clear(k.rows)
		return
	}
	delete(k.rows, r)
}

// verify forgets everything when others have written since. It must be asked
// in a transaction, which is what makes SQLite look.
func (c *conn) verify() {
	if count, err := c.writes(); err != nil || count != c.known.count {
		clear(c.known.rows)
	}
}

// committed notes that the last write was the connection's own.
func (c *conn) committed() {
	var err error
	if c.known.count, err = c.writes(); err != nil {
		clear(c.known.rows)
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
