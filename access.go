package holdfast

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/holder"
)

// access is the right to act on a session. A short action has its place in
// the process's line and no lease: between processes it races by version. A
// long one has a lease, kept alive until it is given back.
type access struct {
	fence int64
	lease *keeper
	leave func()

	// awaited, while not nil, takes note of a lease that is still to be taken,
	// with the first write.
	awaited func(store.Lease, time.Time)
}

// release gives everything back; it may be called twice.
func (a *access) release(ctx context.Context) {
	if a.lease != nil {
		a.lease.release(ctx)
	}
	a.leaveLine()
}

func (a *access) leaveLine() {
	if a.leave != nil {
		a.leave()
		a.leave = nil
	}
}

// need is what an action wants before it begins.
type need int

const (
	turn       need = iota // its place in line
	leaseNow               // a lease
	leaseLater             // a lease, taken with its first write
)

// needs is what an action wants. The built-in conversation writes before it
// does anything that others could notice, so that its lease can wait for that
// write.
func (rt *Runtime) needs(action Action) need {
	switch {
	case rt.starts != nil && conversation(action):
		return leaseLater
	case leased(action):
		return leaseNow
	}
	return turn
}

// enter waits for its turn on a session. A long action gets a lease where the
// store has leases; its context ends with the lease. What is done about a
// busy session is the caller's choice, except for Enqueue, which is seen as
// the BusyError it begins with.
func (rt *Runtime) enter(ctx context.Context, ref store.Ref, want need, busy Busy) (context.Context, *access, error) {
	if rt.leases == nil {
		return rt.enterLine(ctx, ref, busy)
	}
	limit, cancel := context.WithTimeoutCause(ctx, rt.config.BusyWait, errWaited)
	defer cancel()
	line := limit
	if busy == Reject || busy == Enqueue { // others in this process are done at once, or busy
		var done context.CancelFunc
		line, done = context.WithTimeoutCause(ctx, min(rt.config.BusyWait, 100*time.Millisecond), errWaited)
		defer done()
	}
	ring, stop := rt.bell(ref)
	defer stop()
	asked := false
	for {
		granted, a, err := rt.tryEnter(line, ctx, ref, want)
		var taken *session.BusyError
		if !errors.As(err, &taken) {
			return granted, a, err
		}
		if busy == Reject || busy == Enqueue {
			return ctx, nil, err
		}
		if busy == Interrupt && !asked {
			err := rt.Cancel(ctx, ref.ID)
			if err != nil && !errors.Is(err, session.ErrInvalid) { // nothing to cancel yet: look again
				return ctx, nil, err
			}
			asked = err == nil
		}
		if err := rt.await(limit, ring, rt.config.Poll); err != nil {
			return ctx, nil, waited(ctx, err, taken)
		}
	}
}

var errWaited = errors.New("waited long enough")

// waited is the error for waiting in vain: the caller's own end, or that the
// session stayed busy.
func waited(ctx context.Context, err error, taken *session.BusyError) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, session.ErrClosed) {
		return err
	}
	return taken
}

// tryEnter takes its turn once. BusyError names a live holder.
func (rt *Runtime) tryEnter(limit, ctx context.Context, ref store.Ref, want need) (context.Context, *access, error) {
	leave, err := rt.lines.enter(limit, ref)
	if err != nil {
		return ctx, nil, waited(ctx, err, &session.BusyError{ID: ref.ID, Holder: rt.holder})
	}
	a := &access{leave: leave}
	if want == leaseNow {
		defer a.leaveLine()
		asked := time.Now()
		lease, err := rt.leases.Acquire(ctx, ref, rt.holder, rt.config.Lease)
		if err != nil {
			return ctx, nil, err
		}
		working, lost := context.WithCancelCause(ctx)
		a.fence, a.lease = lease.Token, rt.keep(working, lost, ref, lease, asked.Add(rt.config.Lease))
		return working, a, nil
	}
	held, live, err := rt.leases.Holding(ctx, ref)
	if err == nil && live {
		err = &session.BusyError{ID: ref.ID, Holder: held.Holder, Until: held.Until}
	}
	if err != nil {
		a.leaveLine()
		return ctx, nil, err
	}
	if want == turn {
		return ctx, a, nil
	}
	working, lost := context.WithCancelCause(ctx)
	a.awaited = func(lease store.Lease, ends time.Time) {
		a.awaited = nil
		a.fence, a.lease = lease.Token, rt.keep(working, lost, ref, lease, ends)
		a.leaveLine()
	}
	return working, a, nil
}

// append writes to the open tail and, where that is still to be done, takes
// the lease with it.
func (a *access) append(ctx context.Context, rt *Runtime, s session.Session, keys []store.Key) (session.Session, error) {
	if a.awaited == nil {
		return rt.tails.Append(ctx, s, store.Append{Fence: a.fence, Keys: keys})
	}
	asked := time.Now()
	next, lease, err := rt.starts.Start(ctx, s, store.Beginning{Holder: rt.holder, Length: rt.config.Lease, Keys: keys})
	if err == nil {
		a.awaited(lease, asked.Add(rt.config.Lease))
	}
	return next, err
}

// enterLine is for stores without leases: the line in the process is all.
func (rt *Runtime) enterLine(ctx context.Context, ref store.Ref, busy Busy) (context.Context, *access, error) {
	if busy == Interrupt {
		return ctx, nil, rt.unsupported("leases")
	}
	wait := rt.config.BusyWait
	if busy != Wait {
		wait = 0
	}
	limit, cancel := context.WithTimeoutCause(ctx, wait, errWaited)
	defer cancel()
	leave, err := rt.lines.enter(limit, ref)
	if err != nil {
		return ctx, nil, waited(ctx, err, &session.BusyError{ID: ref.ID, Holder: rt.holder})
	}
	return ctx, &access{leave: leave}, nil
}

// bell rings when something about a session may have changed. Without wakes
// it never does, and waiting is polling.
func (rt *Runtime) bell(ref store.Ref) (ring <-chan struct{}, stop func()) {
	if rt.wakes == nil {
		return nil, func() {}
	}
	return rt.wakes.Bell(ref)
}

// await waits for a ring or for the time to look again.
func (rt *Runtime) await(ctx context.Context, ring <-chan struct{}, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ring:
		return nil
	case <-timer.C:
		return nil
	case <-rt.closing.Done():
		return session.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lines makes callers of one process stand in line for each session.
type lines struct {
	mu   sync.Mutex // guards open
	open map[store.Ref]*line
}

type line struct {
	turn  chan struct{} // holds one token while somebody has the turn
	users int
}

// enter waits for the turn. A turn that is free is taken even when the context
// has ended.
func (l *lines) enter(ctx context.Context, ref store.Ref) (leave func(), err error) {
	l.mu.Lock()
	if l.open == nil {
		l.open = map[store.Ref]*line{}
	}
	own, ok := l.open[ref]
	if !ok {
		own = &line{turn: make(chan struct{}, 1)}
		l.open[ref] = own
	}
	own.users++
	l.mu.Unlock()

	select {
	case own.turn <- struct{}{}:
	default:
		select {
		case own.turn <- struct{}{}:
		case <-ctx.Done():
			l.forget(ref, own)
			return nil, context.Cause(ctx)
		}
	}
	return sync.OnceFunc(func() {
		<-own.turn
		l.forget(ref, own)
	}), nil
}

func (l *lines) forget(ref store.Ref, own *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(l.open, ref)
	}
}

// keeper renews a lease until it is stopped. Losing the lease ends the work
// that relies on it.
type keeper struct {
	rt    *Runtime
	ref   store.Ref
	lease store.Lease

	halt context.CancelFunc
	done chan struct{}
	once sync.Once
}

// keep renews a lease in the background and tells lost when it is gone.
func (rt *Runtime) keep(ctx context.Context, lost context.CancelCauseFunc, ref store.Ref, lease store.Lease, ends time.Time) *keeper {
	renewing, halt := context.WithCancel(context.WithoutCancel(ctx))
	k := &keeper{rt: rt, ref: ref, lease: lease, halt: halt, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		if err := k.renew(renewing, ends); err != nil {
			lost(err)
		}
	}()
	return k
}

// renew prolongs the lease at a third of its length. An error that may pass
// is tried again while the lease lives, and no try outlives it.
func (k *keeper) renew(ctx context.Context, ends time.Time) error {
	length := k.rt.config.Lease
	pause := length / 3
	for {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		asked := time.Now()
		bounded, cancel := context.WithDeadline(ctx, ends)
		lease, err := k.rt.leases.Renew(bounded, k.ref, k.lease, length)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			k.lease, ends, pause = lease, asked.Add(length), length/3
		case errors.Is(err, session.ErrFenced), errors.Is(err, session.ErrNotFound):
			return &session.FencedError{ID: k.ref.ID, Token: k.lease.Token}
		case !time.Now().Before(ends):
			return fmt.Errorf("renew lease: %w: %w", &session.FencedError{ID: k.ref.ID, Token: k.lease.Token}, err)
		default:
			pause = min(length/10, time.Until(ends))
		}
	}
}

// stop ends the renewing and leaves the lease as it is.
func (k *keeper) stop() {
	k.halt()
	<-k.done
}

// release ends renewing and lease. A lease that cannot be released ends by
// itself.
func (k *keeper) release(ctx context.Context) {
	k.once.Do(func() {
		k.stop()
		if err := k.rt.leases.Release(context.WithoutCancel(ctx), k.ref, k.lease); err != nil && !errors.Is(err, session.ErrNotFound) {
			k.rt.config.Logger.Warn("lease not released", "session", k.ref.ID, "error", k.rt.masked(err.Error()))
		}
	})
}

// released says that a save has ended the lease.
func (k *keeper) released() { k.once.Do(k.stop) }

// processHolder names this process and runtime. Where the system does not
// tell when a process began, a lease of a dead one runs out instead.
func processHolder(runtime string) string {
	name, err := holder.Name()
	if err != nil {
		name = fmt.Sprintf("unknown/%d", os.Getpid())
	}
	return fmt.Sprintf("%s/%.8s", name, runtime)
}
