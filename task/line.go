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

// join takes the last place of the line. Whoever joins calls enter or abandon.
func (l *line) join() place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := place{line: l, turn: make(chan struct{})}
	if l.inside < l.most && len(l.waiting) == 0 {
		l.inside++
		close(p.turn)
		return p
	}
	l.waiting = append(l.waiting, p.turn)
	return p
}

// place is one in the line.
type place struct {
	line *line
	turn chan struct{} // closed when its turn has come
}

// waits reports that its turn has not come yet.
func (p place) waits() bool {
	select {
	case <-p.turn:
		return false
	default:
		return true
	}
}

// enter waits for its turn. Leave is called once.
func (p place) enter(ctx context.Context) (leave func(), err error) {
	select {
	case <-p.turn:
		return sync.OnceFunc(p.line.leave), nil
	case <-ctx.Done():
		p.abandon()
		return nil, context.Cause(ctx)
	}
}

// abandon gives the place up.
func (p place) abandon() {
	l := p.line
	l.mu.Lock()
	i := slices.Index(l.waiting, p.turn)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // its turn has come
		l.leave()
	}
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
