package task

import (
	"context"
	"slices"
	"sync"
)

// line lets a bounded number in at a time; the others wait in the order in
// which they came.
type line struct {
	mu      sync.Mutex // guards the fields below
	most    int
	inside  int
	waiting []chan struct{}
}

// full reports that whoever comes now has to wait.
func (l *line) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inside >= l.most || len(l.waiting) > 0
}

// enter waits for its turn. Leave is called once.
func (l *line) enter(ctx context.Context) (leave func(), err error) {
	l.mu.Lock()
	if l.inside < l.most && len(l.waiting) == 0 {
		l.inside++
		l.mu.Unlock()
		return sync.OnceFunc(l.leave), nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return sync.OnceFunc(l.leave), nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, turn)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // its turn came meanwhile
		l.leave()
	}
	return nil, context.Cause(ctx)
}

// leave hands the place to whoever waits longest.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.inside--
		return
	}
	close(l.waiting[0])
	l.waiting = l.waiting[1:]
}
