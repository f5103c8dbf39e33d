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

// How long writes are gathered before other nodes are told of them. NOTIFY
// holds a lock of the whole server while it commits: one for each write would
// halve the rate of all. The first write after a pause is told of soon; while
// writes keep coming, more and more of them at once.
const (
	gatherFirst = 5 * time.Millisecond
	gatherLast  = 40 * time.Millisecond
)

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

// A payload of NOTIFY is shorter than 8,000 bytes; a ref is shorter than 300.
const payloadRoom = 7_600

// take are the notices as NOTIFY carries them: ids, no data, many in one. Neither
// a tenant nor an id has a slash or a space in it.
func (n *notices) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var payloads []string
	var text strings.Builder
	for r := range n.dirty {
		if text.Len() > payloadRoom {
			payloads = append(payloads, text.String())
			text.Reset()
		}
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(r.Tenant)
		text.WriteByte('/')
		text.WriteString(r.ID)
	}
	n.dirty = nil
	if text.Len() > 0 {
		payloads = append(payloads, text.String())
	}
	return payloads
}

// noticed are the sessions that a payload tells of.
func noticed(payload string) []store.Ref {
	var refs []store.Ref
	for text := range strings.FieldsSeq(payload) {
		if tenant, id, ok := strings.Cut(text, "/"); ok {
			refs = append(refs, store.Ref{Tenant: tenant, ID: id})
		}
	}
	return refs
}

// notify tells other nodes of writes until the store is closed.
func (s *Store) notify(ctx context.Context) {
	gather := gatherFirst
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
		select {
		case <-s.notices.wanted: // they keep coming
			gather = min(2*gather, gatherLast)
		default:
			gather = gatherFirst
		}
		if err := s.tell(ctx, s.notices.take()); err != nil && !errors.Is(err, context.Canceled) {
			s.config.Logger.Warn("other nodes were not told of writes and will find them by polling", "err", err)
		}
	}
}

// tell sends notices. What was written before Close is told too, if it can be
// told quickly.
func (s *Store) tell(ctx context.Context, payloads []string) error {
	if len(payloads) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return s.once(ctx, func(conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(`SELECT set_config('synchronous_commit', 'off', true)`) // a hint need not be on disk
		batch.Queue(`SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload`, s.notices.channel, payloads)
		return conn.SendBatch(ctx, &batch).Close()
	})
}
