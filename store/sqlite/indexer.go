package sqlite

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// indexer brings the index up to the log in the background. It asks the writer
// like anybody else, for a small part at a time. In a file that nobody ever
// searched there is nothing for it to do.
type indexer struct {
	store   *Store
	wanted  atomic.Bool   // somebody searches, or has once
	asked   atomic.Bool   // somebody here does
	written atomic.Int64  // writes since the index was last looked at
	wake    chan struct{} // holds one call to look
	stop    context.CancelFunc
	stopped chan struct{}
}

const (
	// maxUnindexed is about how many changes a search may have to read beside
	// the index. Where more wait, they are indexed however busy the store is.
	maxUnindexed = 4096

	// minUnindexed is how many are worth a transaction when it is calm.
	minUnindexed = 64

	calm = 500 * time.Millisecond // without a write, that is

	// A busy store is looked at every so many writes, and so many parts are
	// indexed then. That keeps up with it, and where much was left behind, as
	// by an older program, nobody is held up until it is done.
	lookEvery   = 64
	partsAtOnce = 2

	// lastChance is how long closing the store may take for the index's sake.
	lastChance = 250 * time.Millisecond
)

// newIndexer starts the indexer of a store. It ends when it is closed.
func newIndexer(ctx context.Context, s *Store) *indexer {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	i := &indexer{store: s, wake: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{})}
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

// begun reports whether the index is wanted: that it was is seen by the index.
func (i *indexer) begun(ctx context.Context) bool {
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
	quiet := time.NewTimer(calm) // others may have left something
	defer quiet.Stop()
	var seen int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.wake:
			parts := 0
			i.catchUp(ctx, maxUnindexed, func() bool { parts++; return parts <= partsAtOnce })
			quiet.Reset(calm)
		case <-quiet.C:
			if n := i.written.Load(); n != seen {
				seen = n
				quiet.Reset(calm)
				continue
			}
			i.catchUp(ctx, minUnindexed, func() bool { return i.written.Load() == seen })
			if i.written.CompareAndSwap(seen, 0) {
				seen = 0
			} else {
				quiet.Reset(calm)
			}
		}
	}
}

// catchUp indexes part by part while it may, until fewer changes wait than are
// worth it. Errors end it: a search is right without the index, and whoever
// writes next is told.
func (i *indexer) catchUp(ctx context.Context, enough int64, may func() bool) {
	for i.begun(ctx) && may() {
		n, err := i.store.indexPart(ctx, enough, maxPart)
		if err != nil || n < enough {
			return
		}
	}
}

// indexPart indexes at most so many changes where at least so many wait, and
// says how many waited.
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
		err = nil // to be read again
	}
	return waiting, err
}

// close waits for the indexer. What this store has written is indexed first
// where it is worth it and quickly done: a program that is started for one
// write and ends has no quiet moment.
func (i *indexer) close() {
	i.stop()
	<-i.stopped
	if i.written.Load() == 0 && !i.asked.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastChance)
	defer cancel()
	i.catchUp(ctx, minUnindexed, func() bool { return true })
}
