package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// listener learns of writes by other nodes, from the first Subscribe on until the
// store is closed.
type listener struct {
	store  *Store
	config *pgx.ConnConfig // nil: only polling

	mu     sync.Mutex
	start  func() // once
	closed bool   // guarded by mu
}

func (l *listener) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.start()
	}
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// How long to wait before listening is taken up again.
const (
	firstReconnect = 20 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

// listen passes notices on until the context ends, and connects again
// after every lost connection.
func (l *listener) listen(ctx context.Context) {
	if l.config == nil {
		return
	}
	wait := firstReconnect
	for ctx.Err() == nil {
		connected, err := l.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if connected {
			wait = firstReconnect
		}
		l.store.config.Logger.Warn("the connection that listens for writes of other nodes was lost", "err", err, "retry_in", wait)
		pause(ctx, wait)
		wait = min(2*wait, lastReconnect)
	}
}

// listenOnce listens on a connection of its own until that is lost.
func (l *listener) listenOnce(ctx context.Context) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return false, err
	}
	defer closeConn(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.store.notices.channel}.Sanitize()); err != nil {
		return false, err
	}
	// Notices sent before are lost.
	l.store.subscribers.Notify(l.store.subscribers.Refs()...)
	for {
		notice, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		l.store.subscribers.Notify(parseNotice(notice.Payload)...)
	}
}

// poll looks at the sessions that somebody waits for at every Config.Poll and tells of
// those whose row has changed.
func (l *listener) poll(ctx context.Context) {
	seen := map[store.Ref]string{}
	for {
		pause(ctx, l.store.config.Poll)
		if ctx.Err() != nil {
			return
		}
		found, err := l.stamps(ctx, l.store.subscribers.Refs())
		if err != nil {
			continue // the next look finds what this one would have
		}
		for r, stamp := range found {
			// What a subscriber has missed before the first look is not known.
			if before, known := seen[r]; !known || before != stamp {
				l.store.subscribers.Notify(r)
			}
		}
		seen = found
	}
}

// stamps returns a text for each session that changes with every write to it,
// "" for a session that does not exist.
func (l *listener) stamps(ctx context.Context, refs []store.Ref) (map[store.Ref]string, error) {
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
	err := l.store.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
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
