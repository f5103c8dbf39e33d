package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// maxInFlight is how many requests that write run at the same time. Writes
	// that come meanwhile are queued and sent together.
	maxInFlight = 4
	// maxBatch is how many writes one request holds at most.
	maxBatch = 32

	// countsFor is how long a request counts as one of those. A slower one hangs,
	// on a locked session or a silent connection, and must not hold up others.
	countsFor = time.Second
	// lockFor is how long a batch waits for a locked session. After that its
	// writes are sent one by one, and only those of that session wait on.
	lockFor = "500ms"
)

// batcher sends writes to the database. While fewer than maxInFlight run, each
// write is a request and a transaction of its own. Otherwise writes are queued,
// and the next request that ends starts one for all of them (up to maxBatch):
// one round trip, one transaction, one flush of the server's log. Each write
// is acknowledged after that, and is admitted or refused by itself, as if it
// had been sent alone.
type batcher struct {
	mu       sync.Mutex
	inFlight int             // guarded by mu
	queue    []*pendingWrite // guarded by mu, in order of arrival
}

// pendingWrite is a write that is queued or being sent.
type pendingWrite struct {
	*write
	ctx      context.Context
	admitted bool
	err      error
	alone    bool // its batch failed and wrote nothing: it must be sent alone

	batch []*pendingWrite // of the one that sends a batch: all of it, itself first
	ready chan struct{}   // closed when batch is set, or the outcome is
}

// enqueue sends a write, together with others where many are waiting.
func (s *Store) enqueue(ctx context.Context, w *write, admitted *bool) error {
	p := &pendingWrite{write: w, ctx: ctx, ready: make(chan struct{})}
	if !s.batcher.start(p) {
		select {
		case <-p.ready:
		case <-ctx.Done():
			if s.batcher.withdraw(p) {
				return &unsentError{ctx.Err()}
			}
			<-p.ready // it is being sent
		}
	}
	if p.batch != nil {
		s.flush(p.batch) //nolint:contextcheck // each of them has its own
	}
	if p.alone {
		return s.sendAlone(ctx, w, admitted)
	}
	*admitted = p.admitted
	return p.err
}

// start lets a write be sent at once, or else queues it.
func (b *batcher) start(p *pendingWrite) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight < maxInFlight {
		b.inFlight++
		p.batch = []*pendingWrite{p}
		return true
	}
	b.queue = append(b.queue, p)
	return false
}

// withdraw takes a write out of the queue, unless it is being sent already.
func (b *batcher) withdraw(p *pendingWrite) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.queue, p)
	if at < 0 {
		return false
	}
	b.queue = slices.Delete(b.queue, at, at+1)
	return true
}

// next is called when a request has ended or no longer counts. The first queued
// write sends the next batch.
func (b *batcher) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.inFlight--
		return
	}
	n := min(len(b.queue), maxBatch)
	batch := slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	batch[0].batch = batch
	close(batch[0].ready)
}

// errPanicked is what the others of a batch get when its sender panicked: how
// far it came is not known.
var errPanicked = errors.New("the request was interrupted")

// flush sends a batch and gives every write of it its outcome, whatever
// happens, so that no caller waits for ever.
func (s *Store) flush(batch []*pendingWrite) {
	next := sync.OnceFunc(s.batcher.next)
	defer next()
	defer time.AfterFunc(s.countsFor, next).Stop()
	first := batch[0]
	if len(batch) == 1 {
		first.err = s.sendAlone(first.ctx, first.write, &first.admitted)
		return
	}
	err := errPanicked
	defer func() {
		for _, p := range batch {
			// One write failed the whole transaction, and nobody knows which.
			p.err, p.alone = err, err != nil && !answerLost(err)
			if p != first {
				close(p.ready)
			}
		}
	}()
	err = s.sendTogether(batch)
}

func (s *Store) sendAlone(ctx context.Context, w *write, admitted *bool) error {
	return s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		s.config.OnWrite("before " + w.name)
		err := w.sendOn(ctx, conn, admitted)
		s.config.OnWrite("after " + w.name)
		return err
	})
}

// sendTogether sends writes as one transaction, sorted by session, so that
// batches of two nodes cannot deadlock.
func (s *Store) sendTogether(batch []*pendingWrite) error {
	sorted := slices.SortedStableFunc(slices.Values(batch), func(a, b *pendingWrite) int {
		return cmp.Or(cmp.Compare(a.ref.Tenant, b.ref.Tenant), cmp.Compare(a.ref.ID, b.ref.ID))
	})
	ctx, cancel := whileAnyWaits(batch)
	defer cancel()
	return s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var request pgx.Batch
		request.Queue(`SELECT set_config('lock_timeout', $1, true)`, lockFor)
		for _, p := range sorted {
			s.config.OnWrite("before " + p.name)
			p.queue(&request)
		}
		results := conn.SendBatch(ctx, &request)
		_, err := results.Exec()
		for _, p := range sorted {
			if err != nil {
				break
			}
			err = p.receive(results, &p.admitted)
		}
		err = closeBatch(results, err)
		for _, p := range sorted {
			s.config.OnWrite("after " + p.name)
		}
		return err
	})
}

// whileAnyWaits returns a context that ends when those of all writes have
// ended: one caller that gives up does not cost another its answer.
func whileAnyWaits(batch []*pendingWrite) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(batch[0].ctx))
	var (
		mu    sync.Mutex
		left  = len(batch)
		stops = make([]func() bool, len(batch))
	)
	for i, p := range batch {
		stops[i] = context.AfterFunc(p.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
