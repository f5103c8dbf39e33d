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

// How long writes are collected before other nodes are notified again. NOTIFY
// holds a lock of the whole server while it commits: one for each write would
// halve the rate of all. The first write after a pause is sent at once; while
// writes keep coming, the delay grows and more go in one NOTIFY.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 40 * time.Millisecond
)

// notices are the sessions that other nodes must be notified of. A lost notice
// does no harm: polling finds the write.
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
	default: // notify is called already
	}
}

// maxPayload leaves space for one more ref (at most 300 bytes) in a payload of
// NOTIFY, which is shorter than 8,000 bytes.
const maxPayload = 7_600

// take removes the notices and returns them as payloads of NOTIFY: many refs in
// each, no data. Neither a tenant nor an id has a slash or a space in it.
func (n *notices) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var payloads []string
	var text strings.Builder
	for r := range n.dirty {
		if text.Len() > maxPayload {
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

// parseNotice returns the sessions in a payload.
func parseNotice(payload string) []store.Ref {
	var refs []store.Ref
	for text := range strings.FieldsSeq(payload) {
		if tenant, id, ok := strings.Cut(text, "/"); ok {
			refs = append(refs, store.Ref{Tenant: tenant, ID: id})
		}
	}
	return refs
}

// notify notifies other nodes of writes until the store is closed.
func (s *Store) notify(ctx context.Context) {
	delay := firstDelay
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for closing := false; !closing; {
		select {
		case <-s.notices.wanted:
		case <-ctx.Done():
			closing = true
		}
		if err := s.sendNotices(ctx, s.notices.take()); err != nil && !errors.Is(err, context.Canceled) {
			s.config.Logger.Warn("other nodes could not be notified of writes and will find them by polling", "err", err)
		}
		timer.Reset(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if len(s.notices.wanted) > 0 { // they keep coming
			delay = min(2*delay, lastDelay)
		} else {
			delay = firstDelay
		}
	}
}

// sendNotices sends payloads. It still has a second after Close for what was
// written before.
func (s *Store) sendNotices(ctx context.Context, payloads []string) error {
	if len(payloads) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(`SELECT set_config('synchronous_commit', 'off', true)`) // a hint need not be on disk
		batch.Queue(`SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload`, s.notices.channel, payloads)
		return conn.SendBatch(ctx, &batch).Close()
	})
}
