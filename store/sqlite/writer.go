package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	codes "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// request is one write that waits for its turn.
type request struct {
	ref store.Ref

	// do makes the write. An error refuses it and leaves no trace. It may run
	// again when the transaction it was part of failed for another's sake.
	do func(context.Context, *conn) error

	// saved finds out, after a commit whose outcome is in doubt, whether the
	// write is there. Nil: there is no way to tell.
	saved    func(context.Context, *conn) (bool, error)
	commitID string

	state   atomic.Int32
	refusal error      // of do
	answer  chan error // holds one
}

// A request belongs to its caller, who may give up, until the writer takes it.
const (
	waiting int32 = iota
	taken
	givenUp
)

// writer is the only one of its process that writes. It commits whatever it
// finds waiting in one transaction and then tells everybody.
type writer struct {
	conn    *conn
	bells   *bells
	onWrite func(string)
	commit  func(context.Context) error // ends the transaction; replaced in tests

	mu     sync.Mutex // guards queue and closed
	queue  []*request
	closed bool

	wake    chan struct{} // holds one call to look at the queue
	closing chan struct{}
	stopped chan struct{}
	locked  atomic.Bool // another process has the database

	seen int64 // data version when other processes were last looked for
	err  error // of closing the connection, valid once stopped
}

const (
	// maxBatch bounds how many requests share a transaction, and so how long
	// the first of them waits for the others.
	maxBatch = 256

	// A writer looks at the lock of another process this often.
	firstLook = 250 * time.Microsecond
	lastLook  = 8 * time.Millisecond

	// watchEvery is how often writes of other processes are looked for.
	watchEvery = 20 * time.Millisecond
)

func newWriter(c *conn, b *bells, onWrite func(string)) *writer {
	c.onWrite = onWrite
	w := &writer{
		conn: c, bells: b, onWrite: onWrite,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	w.commit = func(ctx context.Context) error {
		_, err := c.exec(ctx, "COMMIT")
		return err
	}
	return w
}

// submit waits for a request to be on the disk, or refused. Where the context
// ends first the request is withdrawn, unless it is being written already.
func (w *writer) submit(ctx context.Context, q *request) error {
	q.answer = make(chan error, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosing
	}
	w.queue = append(w.queue, q)
	w.mu.Unlock()
	w.nudge()
	select {
	case err := <-q.answer:
		return err
	case <-ctx.Done():
	}
	if !q.state.CompareAndSwap(waiting, givenUp) {
		return <-q.answer
	}
	if w.locked.Load() {
		return fmt.Errorf("%w: %w", &session.BusyError{ID: q.ref.ID, Holder: "another process that writes"}, ctx.Err())
	}
	return ctx.Err()
}

// nudge makes the writer look at what there is to do.
func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close refuses what is waiting, and waits for what is being written.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	close(w.closing)
	<-w.stopped
	return w.err
}

// run is the writer's life.
func (w *writer) run(ctx context.Context) {
	defer close(w.stopped)
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	for {
		var look <-chan time.Time
		if w.bells.listening() {
			look = watch.C
		}
		select {
		case <-w.closing:
			w.refuseAll(w.take(-1), errClosing)
			w.err = w.conn.close()
			return
		case <-look:
			w.watch(ctx)
		case <-w.wake:
			if batch := w.take(maxBatch); len(batch) > 0 {
				w.serve(ctx, batch)
				w.nudge() // there may be more
			}
		}
	}
}

// take removes requests from the queue, at most n; all where n is negative.
func (w *writer) take(n int) []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n < 0 || n > len(w.queue) {
		n = len(w.queue)
	}
	batch := w.queue[:n:n]
	w.queue = w.queue[n:]
	return batch
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
		w.bells.ringAll()
	}
}

// serve commits a batch in one transaction.
func (w *writer) serve(ctx context.Context, batch []*request) {
	w.onWrite("before begin")
	if err := w.begin(ctx, batch); err != nil {
		w.refuseAll(batch, err)
		return
	}
	w.onWrite("after begin")
	var mine []*request
	for _, q := range batch {
		if q.state.CompareAndSwap(waiting, taken) {
			mine = append(mine, q)
		}
	}
	accepted, err := w.write(ctx, mine)
	switch {
	case err != nil:
		w.rollback(ctx)
		w.alone(ctx, mine, err)
		return
	case accepted == 0:
		w.rollback(ctx)
	default:
		w.onWrite("before commit")
		if err := w.commit(ctx); err != nil {
			w.settle(ctx, mine, err)
			return
		}
		w.onWrite("after commit")
	}
	w.acknowledge(mine)
}

// begin waits for the lock of the database. It gives up when nobody waits for
// it any more or the store is closed.
func (w *writer) begin(ctx context.Context, batch []*request) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		_, err := w.conn.exec(ctx, "BEGIN IMMEDIATE")
		if !isCode(err, codes.SQLITE_BUSY) {
			w.locked.Store(false)
			return err
		}
		w.locked.Store(true)
		if !anyWaiting(batch) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-w.closing:
			timer.Stop()
			return errClosing
		}
	}
}

func anyWaiting(batch []*request) bool {
	for _, q := range batch {
		if q.state.Load() != givenUp {
			return true
		}
	}
	return false
}

// write makes each request's changes and counts those it accepted. Each has a
// savepoint, so that one that is refused takes nothing back but its own. An
// error means that the whole transaction is lost.
func (w *writer) write(ctx context.Context, batch []*request) (accepted int, err error) {
	for _, q := range batch {
		if len(batch) > 1 {
			if _, err := w.conn.exec(ctx, "SAVEPOINT request"); err != nil {
				return 0, err
			}
		}
		q.refusal = q.do(ctx, w.conn)
		w.onWrite("after request")
		if q.refusal == nil {
			accepted++
		}
		if len(batch) == 1 {
			break // the transaction is its savepoint
		}
		if q.refusal != nil {
			if _, err := w.conn.exec(ctx, "ROLLBACK TO request"); err != nil {
				return 0, errors.Join(q.refusal, err)
			}
		}
		if _, err := w.conn.exec(ctx, "RELEASE request"); err != nil {
			return 0, err
		}
	}
	return accepted, nil
}

// rollback ends a transaction that SQLite may have ended already.
func (w *writer) rollback(ctx context.Context) { _, _ = w.conn.exec(ctx, "ROLLBACK") }

// alone gives each request of a transaction that was lost one of its own, so
// that nobody fails for a neighbour's sake.
func (w *writer) alone(ctx context.Context, batch []*request, cause error) {
	if len(batch) == 1 {
		batch[0].answer <- cause
		return
	}
	for _, q := range batch {
		q.state.Store(waiting)
		w.serve(ctx, []*request{q})
	}
}

// acknowledge tells everybody how it went, and those who wait for news.
func (w *writer) acknowledge(batch []*request) {
	for _, q := range batch {
		if q.refusal == nil {
			w.bells.ring(q.ref)
		}
		q.answer <- q.refusal
	}
}

// refuseAll answers those that were not begun.
func (w *writer) refuseAll(batch []*request, err error) {
	for _, q := range batch {
		if q.state.CompareAndSwap(waiting, taken) {
			q.answer <- err
		}
	}
}
