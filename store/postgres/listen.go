package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// ear hears of writes by other nodes, for as long as the store lives once
// somebody has hung up a bell.
type listener struct {
	store  *Store
	config *pgx.ConnConfig // nil: only polling

	mu     sync.Mutex
	start  func() // once
	closed bool   // guarded by mu
}

func (e *listener) open() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.start()
	}
}

func (e *listener) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

// How long to wait before listening is taken up again.
const (
	firstReconnect = 20 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

// listen rings for notices until the context ends, and connects again when it
// is cut off.
func (e *listener) listen(ctx context.Context) {
	if e.config == nil {
		return
	}
	wait := firstReconnect
	for ctx.Err() == nil {
		heard, err := e.hear(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			wait = firstReconnect
		}
		e.store.config.Logger.Warn("listening for writes of other nodes was cut off", "err", err, "again_in", wait)
		pause(ctx, wait)
		wait = min(2*wait, lastReconnect)
	}
}

// hear listens on a connection of its own until it breaks.
func (e *listener) hear(ctx context.Context) (heard bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, e.config)
	if err != nil {
		return false, err
	}
	defer discard(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{e.store.notices.channel}.Sanitize()); err != nil {
		return false, err
	}
	// What was told before is lost.
	e.store.bells.Ring(e.store.bells.Refs()...)
	for {
		notice, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		e.store.bells.Ring(noticed(notice.Payload)...)
	}
}

// poll looks at the sessions with a bell every now and then and rings for
// those whose row is not the one it was.
func (e *listener) poll(ctx context.Context) {
	seen := map[store.Ref]string{}
	for {
		pause(ctx, e.store.config.Poll)
		if ctx.Err() != nil {
			return
		}
		found, err := e.stamps(ctx, e.store.bells.Refs())
		if err != nil {
			continue // the next look finds what this one would have
		}
		for r, stamp := range found {
			// Nobody knows what a bell has missed before the first look.
			if before, known := seen[r]; !known || before != stamp {
				e.store.bells.Ring(r)
			}
		}
		seen = found
	}
}

// stamps are texts that change with every write to a session: "" where there
// is none.
func (e *listener) stamps(ctx context.Context, refs []store.Ref) (map[store.Ref]string, error) {
	found := make(map[store.Ref]string, len(refs))
	var tenants, ids []string
	for _, r := range refs {
		if r.Check() == nil { // no other session can ever be there
			found[r], tenants, ids = "", append(tenants, r.Tenant), append(ids, r.ID)
		}
	}
	if len(found) == 0 {
		return found, nil
	}
	err := e.store.again(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT s.tenant, s.id, s.sid || '/' || s.xmin || '/' || s.ctid FROM unnest($1::text[], $2::text[]) AS r (tenant, id)
			JOIN sessions s ON s.tenant = r.tenant AND s.id = r.id`, tenants, ids)
		if err != nil {
			return err
		}
		var r store.Ref
		var stamp string
		_, err = pgx.ForEachRow(rows, []any{&r.Tenant, &r.ID, &stamp}, func() error {
			found[r] = stamp
			return nil
		})
		return err
	})
	return found, err
}

// pause waits, or until the context ends.
func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
