package sqlite

import (
	"context"
	"os"
	"time"
)

const (
	// watchEvery is how often the file of the write-ahead log is looked at.
	watchEvery = 2 * time.Millisecond
	// askFor is how long the database is asked after that file has changed. It is
	// written to before a commit can be seen, and its time may be too coarse to
	// tell two writes apart.
	askFor = 20 * time.Millisecond
	// askEvery is how often the database is asked in any case.
	askEvery = 20 * time.Millisecond
)

// watchOthers looks for writes of other processes while somebody waits for
// news. Looking at the file is cheap and says that somebody wrote. Only the
// writer's connection can tell writes of others from the store's own.
func (w *writer) watchOthers(ctx context.Context, logFile string) {
	defer close(w.watched)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var was os.FileInfo
	var asked, until time.Time
	for {
		var due <-chan time.Time
		if !w.subscribers.Empty() {
			due = tick.C
		}
		select {
		case <-w.closing:
			return
		case <-w.wake:
		case <-due:
			now := time.Now()
			if is, err := os.Stat(logFile); err == nil && (was == nil || is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime())) {
				was, until = is, now.Add(askFor)
			}
			if now.After(until) && now.Sub(asked) < askEvery {
				continue
			}
			asked = now
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

// wakeWatcher tells the watcher that somebody may wait for news.
func (w *writer) wakeWatcher() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watch tells all subscribers if another process has written. The writer's own
// commits do not change the number it reads.
func (w *writer) watch(ctx context.Context) {
	var version int64
	if _, err := w.conn.one(ctx, "PRAGMA data_version", nil, &version); err != nil {
		return // the next read reports it
	}
	if version != w.seen {
		w.seen = version
		w.subscribers.Notify(w.subscribers.Refs()...)
	}
}
