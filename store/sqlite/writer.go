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

	// remembers says that do keeps what is known of the session right.
	remembers bool

	state   atomic.Int32
	refusal error         // of do
	answer  chan error    // holds one
	turn    chan struct{} // closed when it is the caller's turn to lead
}

// A request belongs to its caller, who may give up, until a leader takes it.
const (
	waiting int32 = iota
	called        // to lead
	taken
	givenUp
)

// writer is the only connection of its process that writes. Nobody is
// employed to use it: the first who comes leads, commits whatever is waiting
// in one transaction together with his own request, tells everybody, and calls
// the next in line to lead. So one who comes alone waits for nobody.
type writer struct {
	conn    *conn
	bells   *store.Bells
	onWrite func(string)
	commit  func(context.Context) error // ends the transaction; replaced in tests

	mu      sync.Mutex // guards queue, leading and closed
	queue   []*request // in the order they came; the one who was called is the first
	leading bool       // somebody uses the connection
	closed  bool

	closing chan struct{}
	stopped chan struct{} // closed by the last leader after closing
	locked  atomic.Bool   // another process has the database

	wake    chan struct{} // holds one call to the watcher
	watched chan struct{} // closed when the watcher has ended
	look    atomic.Bool   // a look at other processes is due
	seen    int64         // data version when they were last looked at
}

const (
	// maxBatch bounds how many requests share a transaction, and so how long
	// the first of them waits for the others.
	maxBatch = 256

	// A writer looks at the lock of another process this often.
	firstLook = 250 * time.Microsecond
	lastLook  = 8 * time.Millisecond
)

func newWriter(c *conn, b *store.Bells, onWrite func(string)) *writer {
	c.onWrite = onWrite
	w := &writer{
		conn: c, bells: b, onWrite: onWrite,
		closing: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1), watched: make(chan struct{}),
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
	q.answer, q.turn = make(chan error, 1), make(chan struct{})
	lead, err := w.enter(q)
	if err != nil {
		return err
	}
	if !lead {
		select {
		case err := <-q.answer:
			return err
		case <-q.turn:
		case <-ctx.Done():
			if q.state.CompareAndSwap(waiting, givenUp) {
				return w.withdrawn(ctx, q)
			}
			select {
			case err := <-q.answer:
				return err
			case <-q.turn:
			}
		}
	}
	w.lead(ctx, q)
	return <-q.answer
}

// withdrawn is what a caller is told who gave up.
func (w *writer) withdrawn(ctx context.Context, q *request) error {
	if w.locked.Load() {
		return fmt.Errorf("%w: %w", &session.BusyError{ID: q.ref.ID, Holder: "another process that writes"}, ctx.Err())
	}
	return ctx.Err()
}

// enter joins the queue. Who finds nobody leading does so.
func (w *writer) enter(q *request) (lead bool, err error) {
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
	q.state.Store(called)
	return true, nil
}

// lead writes what is waiting, the leader's own request first. What came while
// the database was locked by another process is part of it.
func (w *writer) lead(ctx context.Context, q *request) {
	on := context.WithoutCancel(ctx) // the others did not give up
	defer w.passOn(on)
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
	w.serve(on, w.take())
}

// take removes a batch from the queue, without those who gave up.
func (w *writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	batch := make([]*request, 0, n)
	for _, q := range w.queue[:n] {
		if q.state.CompareAndSwap(waiting, taken) || q.state.CompareAndSwap(called, taken) {
			batch = append(batch, q)
		}
	}
	w.queue = w.queue[n:]
	return batch
}

// passOn calls the next in line to lead. After Close nobody does any more.
func (w *writer) passOn(ctx context.Context) {
	if w.look.CompareAndSwap(true, false) {
		w.watch(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; len(w.queue) > 0; w.queue = w.queue[1:] {
		q := w.queue[0]
		switch {
		case w.closed && q.state.CompareAndSwap(waiting, taken):
			q.answer <- errClosing
		case !w.closed && q.state.CompareAndSwap(waiting, called):
			close(q.turn)
			return
		}
	}
	w.queue, w.leading = nil, false
	if w.closed {
		close(w.stopped)
	}
}

// close refuses what is waiting, and waits for what is being written.
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

// serve commits a batch in the transaction that was begun.
func (w *writer) serve(ctx context.Context, batch []*request) {
	accepted, err := w.write(ctx, batch)
	switch {
	case err != nil:
		w.rollback(ctx)
		w.alone(ctx, batch, err)
		return
	case accepted == 0:
		w.rollback(ctx)
	default:
		w.onWrite("before commit")
		if err := w.commit(ctx); err != nil {
			w.settle(ctx, batch, err)
			return
		}
		w.conn.committed()
		w.onWrite("after commit")
	}
	w.acknowledge(batch)
}

// begin waits for the lock of the database until the context ends or the
// store is closed.
func (w *writer) begin(ctx context.Context) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
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

// write makes each request's changes and counts those it accepted. What is
// refused is nearly always refused before it has written anything; where not,
// the whole transaction is given up, as after any other error.
func (w *writer) write(ctx context.Context, batch []*request) (accepted int, err error) {
	for _, q := range batch {
		if !q.remembers {
			w.conn.known.drop(q.ref)
		}
		w.conn.wrote = false
		q.refusal = q.do(ctx, w.conn)
		w.onWrite("after request")
		if q.refusal == nil {
			accepted++
			continue
		}
		w.conn.known.drop(q.ref)
		if w.conn.wrote && len(batch) > 1 {
			return 0, q.refusal
		}
	}
	return accepted, nil
}

// rollback ends a transaction that SQLite may have ended already.
func (w *writer) rollback(ctx context.Context) {
	w.conn.known.drop(store.Ref{})
	_, _ = w.conn.exec(ctx, "ROLLBACK")
}

// alone gives each request of a transaction that was lost one of its own, so
// that nobody fails for a neighbour's sake.
func (w *writer) alone(ctx context.Context, batch []*request, cause error) {
	if len(batch) == 1 {
		batch[0].answer <- cause
		return
	}
	for _, q := range batch {
		if err := w.begin(ctx); err != nil {
			q.answer <- err
			continue
		}
		w.serve(ctx, []*request{q})
	}
}

// acknowledge tells everybody how it went, and those who wait for news.
func (w *writer) acknowledge(batch []*request) {
	for _, q := range batch {
		if q.refusal == nil {
			w.bells.Ring(q.ref)
		}
		q.answer <- q.refusal
	}
}
