package holdfast

import (
	"context"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
)

// sharedReads lets the followers of one session read its log together: a
// change that wakes a thousand of them is read twice and not a thousand times.
// A caller gets a read that began after it asked, so it misses nothing that was
// in the log by then.
type sharedReads struct {
	mu      sync.Mutex            // guards the rest
	waiting map[int64]*sharedRead // not begun; by the number that it reads after
	running map[int64]*sharedRead
}

// sharedRead is one read of the log. Its results are there when it is done.
type sharedRead struct {
	done      chan struct{}
	entries   []session.LogEntry
	err       error
	abandoned bool // the caller that was to read went away
}

// read returns what fn returns, or what it returned to another caller.
func (s *sharedReads) read(ctx context.Context, after int64, fn func(context.Context) ([]session.LogEntry, error)) ([]session.LogEntry, error) {
	s.mu.Lock()
	if r := s.waiting[after]; r != nil {
		s.mu.Unlock()
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if r.abandoned {
			return fn(ctx)
		}
		return r.entries, r.err
	}
	if s.waiting == nil {
		s.waiting, s.running = map[int64]*sharedRead{}, map[int64]*sharedRead{}
	}
	r := &sharedRead{done: make(chan struct{})}
	before := s.running[after]
	s.waiting[after] = r
	s.mu.Unlock()
	defer close(r.done)
	if before != nil { // meanwhile others join
		select {
		case <-before.done:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	delete(s.waiting, after) // whoever comes from here on may want what is written from here on
	s.running[after] = r
	s.mu.Unlock()
	r.entries, r.err = fn(ctx)
	r.abandoned = ctx.Err() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[after] == r {
		delete(s.running, after)
	}
	return r.entries, r.err
}
