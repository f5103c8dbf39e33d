package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// gather is how long writes are gathered before other nodes are told of them.
// NOTIFY holds a lock of the whole server while it commits: one for each write
// would halve the rate of all.
const gather = 5 * time.Millisecond

// notices are the sessions that other nodes have not been told of yet. They
// are hints: one that is lost is found by polling.
type notices struct {
	channel string
	wanted  chan struct{} // holds one

	mu    sync.Mutex
	dirty map[store.Ref]bool // guarded by mu
}

// channelOf is the channel of the stores in one schema.
func channelOf(schema string) string {
	return fmt.Sprintf("holdfast_%08x", crc32.ChecksumIEEE([]byte(schema)))
}

func (n *notices) add(r store.Ref) {
	n.mu.Lock()
	if n.dirty == nil {
		n.dirty = map[store.Ref]bool{}
	}
	n.dirty[r] = true
	n.mu.Unlock()
	select {
	case n.wanted <- struct{}{}:
	default: // somebody is coming for them already
	}
}

// take are the notices as NOTIFY carries them: ids, no data. Neither a tenant
// nor an id has a slash in it.
func (n *notices) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	texts := make([]string, 0, len(n.dirty))
	for r := range n.dirty {
		texts = append(texts, r.Tenant+"/"+r.ID)
	}
	n.dirty = nil
	return texts
}

func noticed(text string) (store.Ref, bool) {
	tenant, id, ok := strings.Cut(text, "/")
	return store.Ref{Tenant: tenant, ID: id}, ok
}

// notify tells other nodes of writes until the store is closed.
func (s *Store) notify(ctx context.Context) {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for {
		select {
		case <-s.notices.wanted:
		case <-ctx.Done():
			return
		}
		timer.Reset(gather)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		// What was written before Close is told, if it can be told quickly.
		telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		err := s.once(telling, func(conn *pgx.Conn) error {
			_, err := conn.Exec(telling, `SELECT pg_notify($1, id) FROM unnest($2::text[]) AS id`, s.notices.channel, s.notices.take())
			return err
		})
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.config.Logger.Warn("other nodes were not told of writes and will find them by polling", "err", err)
		}
	}
}
