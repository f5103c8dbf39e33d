package sqlite

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// indexer fills the index of words in the background, in small parts that are
// queued like other writes. It does nothing in a file that was never searched.
type indexer struct {
	store   *Store
	wanted  atomic.Bool   // the file was searched at some time
	asked   atomic.Bool   // it was searched through this store
	written atomic.Int64  // writes since the index was last filled
	wake    chan struct{} // holds one signal
	stop    context.CancelFunc
	stopped chan struct{}

	closeFor time.Duration // the constant of that name, except in tests
}

const (
	// maxUnindexed is about how many changes a search may have to read besides
	// the index. If more wait, they are indexed even while the store is busy.
	maxUnindexed = 4096

	// minUnindexed is how many are worth a transaction while the store is idle.
	minUnindexed = 64

	idleAfter = 500 * time.Millisecond // without a write

	// In a busy store, every lookEvery writes at most partsAtOnce parts are
	// indexed. That keeps up with the writes, and a large backlog, as an older
	// program may leave it, delays nobody for long.
	lookEvery   = 64
	partsAtOnce = 2

	// closeFor is how long Close may take to fill the index.
	closeFor = 250 * time.Millisecond
)

// newIndexer starts the indexer of a store. It ends when it is closed.
func newIndexer(ctx context.Context, s *Store) *indexer {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	i := &indexer{store: s, wake: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{}), closeFor: closeFor}
	go i.run(ctx)
	return i
}

// wrote tells the indexer that something was written. Most calls only count.
func (i *indexer) wrote() {
	if n := i.written.Add(1); n != 1 && n%lookEvery != 0 {
		return
	}
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// searched tells the indexer that somebody searches.
func (i *indexer) searched() {
	i.wanted.Store(true)
	if i.asked.Swap(true) {
		return
	}
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// isWanted reports whether the file was ever searched: then it has an index.
func (i *indexer) isWanted(ctx context.Context) bool {
	if i.wanted.Load() {
		return true
	}
	var mark int64
	err := i.store.readers.read(ctx, func(ctx context.Context, c *conn) (err error) {
		mark, err = c.mark(ctx)
		return err
	})
	if err == nil && mark > 0 {
		i.wanted.Store(true)
	}
	return i.wanted.Load()
}

func (i *indexer) run(ctx context.Context) {
	defer close(i.stopped)
	quiet := time.NewTimer(idleAfter) // other processes may have left a backlog
	defer quiet.Stop()
	var seen int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.wake:
			parts := 0
			i.catchUp(ctx, maxUnindexed, func() bool { parts++; return parts <= partsAtOnce })
			quiet.Reset(idleAfter)
		case <-quiet.C:
			if n := i.written.Load(); n != seen {
				seen = n
				quiet.Reset(idleAfter)
				continue
			}
			i.catchUp(ctx, minUnindexed, func() bool { return i.written.Load() == seen })
			if i.written.CompareAndSwap(seen, 0) {
				seen = 0
			} else {
				quiet.Reset(idleAfter)
			}
		}
	}
}

// catchUp indexes part by part while it may, until fewer than enough changes
// wait. An error ends it without a report: a search is right without the index,
// and the next write meets the same error.
func (i *indexer) catchUp(ctx context.Context, enough int64, may func() bool) {
	for i.isWanted(ctx) && may() {
		n, err := i.store.indexPart(ctx, enough, maxPart)
		if err != nil || n < enough {
			return
		}
	}
}

// indexPart indexes at most most changes if at least atLeast wait, and returns
// how many waited.
func (s *Store) indexPart(ctx context.Context, atLeast int64, most int) (waiting int64, err error) {
	var part indexing
	err = s.readers.read(ctx, func(ctx context.Context, c *conn) error {
		if waiting, err = c.unindexed(ctx); err != nil || waiting < atLeast {
			return err
		}
		mark, err := c.mark(ctx)
		if err == nil {
			part, err = c.partAfter(ctx, mark, most)
		}
		return err
	})
	if err != nil || len(part.places) == 0 {
		return waiting, err
	}
	err = s.writer.submit(ctx, &request{do: func(ctx context.Context, c *conn) error { return c.index(ctx, part) }})
	if errors.Is(err, errMoved) {
		err = nil // the next part is read again
	}
	return waiting, err
}

// close waits for the indexer, and indexes what can be done quickly: a program
// that makes one write and ends is never idle.
func (i *indexer) close() {
	i.stop()
	<-i.stopped
	if i.written.Load() == 0 && !i.asked.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), i.closeFor)
	defer cancel()
	i.catchUp(ctx, minUnindexed, func() bool { return true })
}
