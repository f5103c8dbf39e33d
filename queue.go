package holdfast

import (
	"context"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// sessionQueues lets one caller of this process at a time act on a session; the
// others wait in a queue per session.
type sessionQueues struct {
	mu   sync.Mutex // guards open
	open map[store.Ref]*sessionQueue
}

type sessionQueue struct {
	slot  chan struct{} // holds one token while somebody acts
	users int
}

// enter waits for the slot. A free slot is taken even when the context
// has ended.
func (l *sessionQueues) enter(ctx context.Context, ref store.Ref) (leave func(), err error) {
	l.mu.Lock()
	if l.open == nil {
		l.open = map[store.Ref]*sessionQueue{}
	}
	own, ok := l.open[ref]
	if !ok {
		own = &sessionQueue{slot: make(chan struct{}, 1)}
		l.open[ref] = own
	}
	own.users++
	l.mu.Unlock()

	select {
	case own.slot <- struct{}{}:
	default:
		select {
		case own.slot <- struct{}{}:
		case <-ctx.Done():
			l.forget(ref, own)
			return nil, context.Cause(ctx)
		}
	}
	return sync.OnceFunc(func() {
		<-own.slot
		l.forget(ref, own)
	}), nil
}

func (l *sessionQueues) forget(ref store.Ref, own *sessionQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(l.open, ref)
	}
}
