package sqlite

import (
	"context"
	"time"
)

// watchEvery is how often writes of other processes are looked for.
const watchEvery = 20 * time.Millisecond

// watchOthers looks for writes of other processes while somebody listens. It
// is the writer's connection that can tell them from the store's own.
func (w *writer) watchOthers(ctx context.Context) {
	defer close(w.watched)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		var due <-chan time.Time
		if !w.bells.Empty() {
			due = tick.C
		}
		select {
		case <-w.closing:
			return
		case <-w.wake:
		case <-due:
			w.look.Store(true) // whoever leads looks
			if w.leadIdle() {
				w.passOn(ctx)
			}
		}
	}
}

// leadIdle takes the connection if nobody uses it.
func (w *writer) leadIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leading || w.closed {
		return false
	}
	w.leading = true
	return true
}

// nudge tells the watcher that somebody may have begun to listen.
func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watch rings every bell when another process has written. The number it
// looks at does not change by the writer's own commits.
func (w *writer) watch(ctx context.Context) {
	var version int64
	if _, err := w.conn.one(ctx, "PRAGMA data_version", nil, &version); err != nil {
		return // whoever reads next is told
	}
	if version != w.seen {
		w.seen = version
		w.bells.Ring(w.bells.Refs()...)
	}
}
