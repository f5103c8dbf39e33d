package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// maxQueued is how much work may wait for a slot of a node.
const maxQueued = 1000

// work carries out in the background what requests have begun: tasks, runs and
// turns that nobody waits for. The end of the server interrupts it. What it has
// saved by then can be continued by any process.
type work struct {
	ended context.Context // ends with the server
	end   context.CancelCauseFunc
	slots chan struct{}
	queue chan struct{} // places of what waits for a slot or has one
	all   sync.WaitGroup
	log   *slog.Logger
}

func newWork(slots int, log *slog.Logger) *work {
	ended, end := context.WithCancelCause(context.Background())
	return &work{ended: ended, end: end, slots: make(chan struct{}, slots), queue: make(chan struct{}, slots+maxQueued), log: log}
}

// close interrupts the work. It may be called twice.
func (w *work) close() { w.end(session.ErrClosed) }

// place is room for one piece of work.
type place struct {
	w      *work
	waited bool // somebody waits for it, so it needs no slot
}

// attended is the place of work that somebody waits for. It goes on when he has
// gone away.
func (w *work) attended() place { return place{w: w, waited: true} }

// reserve takes a place before anything is saved, so that nothing is saved that
// this node has no room for. The caller begins the work or gives the place back.
func (w *work) reserve() (place, error) {
	if w.ended.Err() != nil {
		return place{}, session.ErrClosed
	}
	select {
	case w.queue <- struct{}{}:
		return place{w: w}, nil
	default:
		p := problem.New(http.StatusTooManyRequests, problem.CodeRateLimited, "this node has as much work waiting as it takes")
		p.RetryAfter = 5
		return place{}, p
	}
}

func (p place) giveBack() {
	if !p.waited {
		<-p.w.queue
	}
}

// begin carries out fn when there is a slot. Done gets what fn returned and is
// closed; nobody needs to read it. The context of fn has the values of ctx and outlives it.
func (p place) begin(ctx context.Context, id string, fn func(context.Context) error) (done <-chan error) {
	w, result := p.w, make(chan error, 1)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(w.ended, func() { cancel(session.ErrClosed) }) //nolint:contextcheck // it ends with the server, not with a request
	w.all.Go(func() {
		defer close(result)
		defer p.giveBack()
		defer cancel(nil)
		defer stop()
		if !p.waited {
			select {
			case w.slots <- struct{}{}:
				defer func() { <-w.slots }()
			case <-ctx.Done():
				result <- session.ErrClosed
				return
			}
		}
		err := fn(ctx)
		if err != nil && !errors.Is(err, session.ErrInterrupted) {
			w.log.WarnContext(ctx, "background work ended with an error", "session", id, "error", err)
		}
		result <- err
	})
	return result
}

// run carries out fn in the background and returns when fn has ended, or when
// its first change is saved: then done is false, and fn goes on.
func (w *work) run(ctx context.Context, rt *holdfast.Runtime, id string, fn func(context.Context) error) (done bool, err error) {
	p, err := w.reserve()
	if err != nil {
		return true, err
	}
	result, err := p.start(ctx, rt, id, fn)
	return result == nil, err
}

// start carries out fn and returns when it has ended, with what it returned, or
// when its first change is saved: then the channel gets what fn returns.
func (p place) start(ctx context.Context, rt *holdfast.Runtime, id string, fn func(context.Context) error) (<-chan error, error) {
	now, err := rt.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		p.giveBack()
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	saved, ended := make(chan struct{}), make(chan struct{})
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		for u, err := range rt.Follow(watching, id, now.Seq()) {
			if err != nil {
				return
			}
			if u.Record != nil {
				close(saved)
				return
			}
		}
	}()
	result := p.begin(ctx, id, fn)
	select {
	case err := <-result:
		return nil, err
	case <-saved:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select { // both may be ready: the end says more
	case err := <-result:
		return nil, err
	default:
		return result, nil
	}
}
