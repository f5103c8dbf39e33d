package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// request is one write.
type request struct {
	ref store.Ref

	// do makes the write. An error refuses it and leaves no trace. It may run
	// again if another request made the shared transaction fail.
	do func(context.Context, *conn) error

	// saved finds out whether the write was made, after a commit that failed with
	// an unknown outcome. Nil: there is no way to tell.
	saved    func(context.Context, *conn) (bool, error)
	commitID string

	// keepsCache says that do updates the session's row in the cache.
	keepsCache bool

	state   atomic.Int32
	refusal error         // of do
	answer  chan error    // holds one
	lead    chan struct{} // closed when the caller must lead
}

// The states of a request. Its caller may give it up until a leader takes it.
const (
	waiting int32 = iota
	leads         // its caller was called to lead
	taken
	givenUp
)

// writer is the only connection of its process that writes. There is no writer
// goroutine: the first caller becomes the leader. It commits its own request and
// all queued ones in one transaction (group commit), answers them, and calls the
// next queued caller to lead. So a single caller waits for nobody.
type writer struct {
	conn        *conn
	subscribers *store.Subscribers
	onWrite     func(string)
	commit      func(context.Context) error // ends the transaction; replaced in tests

	mu      sync.Mutex // guards queue, leading and closed
	queue   []*request // in order of arrival; the caller that leads next is the first
	leading bool       // a leader uses the connection
	closed  bool

	closing chan struct{}
	stopped chan struct{} // closed by the last leader after closing
	locked  atomic.Bool   // another process has locked the database

	wake    chan struct{} // holds one signal for the watcher
	watched chan struct{} // closed when the watcher has ended
	lookDue atomic.Bool   // a look at other processes is due
	seen    int64         // data version when they were last looked at
}

const (
	// maxBatch bounds how many requests share a transaction, and so how long the
	// first of them waits for the others.
	maxBatch = 256

	// The pauses between two tries to get the lock from another process.
	firstPause = 250 * time.Microsecond
	lastPause  = 8 * time.Millisecond
)

func newWriter(c *conn, b *store.Subscribers, onWrite func(string)) *writer {
	c.onWrite = onWrite
	w := &writer{
		conn: c, subscribers: b, onWrite: onWrite,
		closing: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1), watched: make(chan struct{}),
	}
	w.commit = func(ctx context.Context) error {
		_, err := c.exec(ctx, "COMMIT")
		return err
	}
	return w
}

// submit returns when a request is on the disk, or refused. If the context ends
// first the request is withdrawn, unless it is being written already.
func (w *writer) submit(ctx context.Context, q *request) error {
	q.answer, q.lead = make(chan error, 1), make(chan struct{})
	lead, err := w.enqueue(q)
	if err != nil {
		return err
	}
	if !lead {
		select {
		case err := <-q.answer:
			return err
		case <-q.lead:
		case <-ctx.Done():
			if q.state.CompareAndSwap(waiting, givenUp) {
				return w.withdrawn(ctx, q)
			}
			select {
			case err := <-q.answer:
				return err
			case <-q.lead:
			}
		}
	}
	w.lead(ctx, q)
	return <-q.answer
}

// withdrawn returns the error for a caller that gave up.
func (w *writer) withdrawn(ctx context.Context, q *request) error {
	if w.locked.Load() {
		return fmt.Errorf("%w: %w", &session.BusyError{ID: q.ref.ID, Holder: "another process that writes to the database"}, ctx.Err())
	}
	return ctx.Err()
}

// enqueue adds a request to the queue. Its caller leads if nobody else does.
func (w *writer) enqueue(q *request) (lead bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false, errClosing
	}
	w.queue = append(w.queue, q)
	if w.leading {
		return false, nil
	}
	w.leading = true
	q.state.Store(leads)
	return true, nil
}

// lead writes the leader's own request and all that are queued when the database
// is not locked by another process any more.
func (w *writer) lead(ctx context.Context, q *request) {
	batchCtx := context.WithoutCancel(ctx) // the other callers did not give up
	defer w.callNext(batchCtx)
	w.onWrite("before begin")
	err := w.begin(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		q.state.Store(givenUp)
		q.answer <- w.withdrawn(ctx, q)
		return
	case err != nil:
		for _, q := range w.take() {
			q.answer <- err
		}
		return
	}
	w.onWrite("after begin")
	w.conn.verify()
	w.commitBatch(batchCtx, w.take())
}

// take removes a batch from the queue, without the requests that were given up.
func (w *writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	batch := make([]*request, 0, n)
	for _, q := range w.queue[:n] {
		if q.state.CompareAndSwap(waiting, taken) || q.state.CompareAndSwap(leads, taken) {
			batch = append(batch, q)
		}
	}
	w.queue = w.queue[n:]
	return batch
}

// callNext lets the next queued caller lead. After close it refuses all queued
// requests instead.
func (w *writer) callNext(ctx context.Context) {
	if w.lookDue.CompareAndSwap(true, false) {
		w.watch(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; len(w.queue) > 0; w.queue = w.queue[1:] {
		q := w.queue[0]
		switch {
		case w.closed && q.state.CompareAndSwap(waiting, taken):
			q.answer <- errClosing
		case !w.closed && q.state.CompareAndSwap(waiting, leads):
			close(q.lead)
			return
		}
	}
	w.queue, w.leading = nil, false
	if w.closed {
		close(w.stopped)
	}
}

// close refuses queued requests and waits for the batch that is being written.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	idle := !w.leading
	w.mu.Unlock()
	close(w.closing)
	if !idle {
		<-w.stopped
	}
	<-w.watched
	return w.conn.close()
}

// commitBatch writes and commits a batch in the transaction that was begun.
func (w *writer) commitBatch(ctx context.Context, batch []*request) {
	accepted, err := w.write(ctx, batch)
	switch {
	case err != nil:
		w.rollback(ctx)
		w.writeEach(ctx, batch, err)
		return
	case accepted == 0:
		w.rollback(ctx)
	default:
		w.onWrite("before commit")
		if err := w.commit(ctx); err != nil {
			w.resolve(ctx, batch, err)
			return
		}
		w.conn.committed()
		w.onWrite("after commit")
	}
	w.acknowledge(batch)
}

// begin waits for the database's lock until the context ends or the store is
// closed.
func (w *writer) begin(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := w.conn.exec(context.WithoutCancel(ctx), "BEGIN IMMEDIATE")
		if !isCode(err, codes.SQLITE_BUSY) {
			w.locked.Store(false)
			return err
		}
		w.locked.Store(true)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		case <-w.closing:
			timer.Stop()
			return errClosing
		}
	}
}

// write runs each request and counts those it accepted. Requests are nearly
// always refused before they write anything; otherwise the whole transaction
// is given up, as after any other error.
func (w *writer) write(ctx context.Context, batch []*request) (accepted int, err error) {
	for _, q := range batch {
		if !q.keepsCache {
			w.conn.cache.drop(q.ref)
		}
		w.conn.wrote = false
		q.refusal = q.do(ctx, w.conn)
		w.onWrite("after request")
		if q.refusal == nil {
			accepted++
			continue
		}
		w.conn.cache.drop(q.ref)
		if w.conn.wrote && len(batch) > 1 {
			return 0, q.refusal
		}
	}
	return accepted, nil
}

// rollback ends a transaction that SQLite may have ended already.
func (w *writer) rollback(ctx context.Context) {
	w.conn.cache.drop(store.Ref{})
	_, _ = w.conn.exec(ctx, "ROLLBACK")
}

// writeEach writes each request of a failed transaction in a transaction of its
// own, so that none fails because of another.
func (w *writer) writeEach(ctx context.Context, batch []*request, cause error) {
	if len(batch) == 1 {
		batch[0].answer <- cause
		return
	}
	for _, q := range batch {
		if err := w.begin(ctx); err != nil {
			q.answer <- err
			continue
		}
		w.commitBatch(ctx, []*request{q})
	}
}

// acknowledge answers all requests and wakes the readers of what was written.
func (w *writer) acknowledge(batch []*request) {
	for _, q := range batch {
		if q.refusal == nil {
			w.subscribers.Notify(q.ref)
		}
		q.answer <- q.refusal
	}
}
