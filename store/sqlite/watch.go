package sqlite

import (
	"context"
	"time"
)

// watchEvery is how often writes of other processes are looked for.
const watchEvery = 20 * time.Millisecond

// watchOthers looks for writes of other processes while somebody waits for a
// bell. Only the writer's connection can tell them from the store's own writes.
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
			w.lookDue.Store(true) // the leader looks when it is done
			if w.leadIdle() {
				w.callNext(ctx)
			}
		}
	}
}

// leadIdle takes the lead if nobody has it.
func (w *writer) leadIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leading || w.closed {
		return false
	}
	w.leading = true
	return true
}

// wakeWatcher tells the watcher that somebody may wait for a bell.
func (w *writer) wakeWatcher() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watch rings every bell if another process has written. The writer's own
// commits do not change the number it reads.
func (w *writer) watch(ctx context.Context) {
	var version int64
	if _, err := w.conn.one(ctx, "PRAGMA data_version", nil, &version); err != nil {
		return // the next read reports it
	}
	if version != w.seen {
		w.seen = version
		w.bells.Ring(w.bells.Refs()...)
	}
}
