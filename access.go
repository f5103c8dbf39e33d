package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// access is the right to act on a session. A short action has its place in
// the process's line and no lease: between processes it races by version. A
// long one has a lease, kept alive until it is given back.
type access struct {
	fence int64
	lease *leaseKeeper
	leave func()

	// awaited, while not nil, takes note of a lease that is still to be taken,
	// with the first write.
	onLease func(store.Lease, time.Time)
}

// release gives everything back; it may be called twice.
func (a *access) release(ctx context.Context) {
	if a.lease != nil {
		a.lease.release(ctx)
	}
	a.leaveQueue()
}

func (a *access) leaveQueue() {
	if a.leave != nil {
		a.leave()
		a.leave = nil
	}
}

// need is what an action wants before it begins.
type leaseNeed int

const (
	noLease             leaseNeed = iota // its place in line
	leaseNow                             // a lease
	leaseWithFirstWrite                  // a lease, taken with its first write
)

// needs is what an action wants. The built-in conversation writes before it
// does anything that others could notice, so that its lease can wait for that
// write.
func (rt *Runtime) leaseNeed(action Action) leaseNeed {
	switch {
	case rt.starts != nil && runsAgent(action):
		return leaseWithFirstWrite
	case leased(action):
		return leaseNow
	}
	return noLease
}

// enter waits for its turn on a session. A long action gets a lease where the
// store has leases; its context ends with the lease. What is done about a
// busy session is the caller's choice, except for Enqueue, which is seen as
// the BusyError it begins with.
func (rt *Runtime) enterSession(ctx context.Context, ref store.Ref, want leaseNeed, busy Busy) (context.Context, *access, error) {
	if rt.leases == nil {
		return rt.enterWithoutLeases(ctx, ref, busy)
	}
	limit, cancel := context.WithTimeoutCause(ctx, rt.config.BusyWait, errBusyTimeout)
	defer cancel()
	line := limit
	if busy == Reject || busy == Enqueue { // others in this process are done at once, or busy
		var done context.CancelFunc
		line, done = context.WithTimeoutCause(ctx, min(rt.config.BusyWait, 100*time.Millisecond), errBusyTimeout)
		defer done()
	}
	ring, stop := rt.bell(ref)
	defer stop()
	asked := false
	for {
		granted, a, err := rt.tryEnterSession(line, ctx, ref, want)
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
			return ctx, nil, busyTimeout(ctx, err, taken)
		}
	}
}

var errBusyTimeout = errors.New("waited long enough")

// waited is the error for waiting in vain: the caller's own end, or that the
// session stayed busy.
func busyTimeout(ctx context.Context, err error, taken *session.BusyError) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, session.ErrClosed) {
		return err
	}
	return taken
}

// tryEnter takes its turn once. BusyError names a live holder.
func (rt *Runtime) tryEnterSession(limit, ctx context.Context, ref store.Ref, want leaseNeed) (context.Context, *access, error) {
	leave, err := rt.queues.enter(limit, ref)
	if err != nil {
		return ctx, nil, busyTimeout(ctx, err, &session.BusyError{ID: ref.ID, Holder: rt.holder})
	}
	a := &access{leave: leave}
	if want == leaseNow {
		defer a.leaveQueue()
		asked := time.Now()
		lease, err := rt.leases.Acquire(ctx, ref, rt.holder, rt.config.Lease)
		if err != nil {
			return ctx, nil, err
		}
		working, lost := context.WithCancelCause(ctx)
		a.fence, a.lease = lease.Token, rt.keepLease(working, lost, ref, lease, asked.Add(rt.config.Lease))
		return working, a, nil
	}
	held, live, err := rt.leases.Holding(ctx, ref)
	if err == nil && live {
		err = &session.BusyError{ID: ref.ID, Holder: held.Holder, Until: held.Until}
	}
	if err != nil {
		a.leaveQueue()
		return ctx, nil, err
	}
	if want == noLease {
		return ctx, a, nil
	}
	working, lost := context.WithCancelCause(ctx)
	a.onLease = func(lease store.Lease, ends time.Time) {
		a.onLease = nil
		a.fence, a.lease = lease.Token, rt.keepLease(working, lost, ref, lease, ends)
		a.leaveQueue()
	}
	return working, a, nil
}

// append writes to the open tail and, where that is still to be done, takes
// the lease with it.
func (a *access) append(ctx context.Context, rt *Runtime, s session.Session, keys []store.Key) (session.Session, error) {
	if a.onLease == nil {
		return rt.tails.Append(ctx, s, store.Append{Fence: a.fence, Keys: keys})
	}
	asked := time.Now()
	next, lease, err := rt.starts.Start(ctx, s, store.Beginning{Holder: rt.holder, Length: rt.config.Lease, Keys: keys})
	if err == nil {
		a.onLease(lease, asked.Add(rt.config.Lease))
	}
	return next, err
}

// enterLine is for stores without leases: the line in the process is all.
func (rt *Runtime) enterWithoutLeases(ctx context.Context, ref store.Ref, busy Busy) (context.Context, *access, error) {
	if busy == Interrupt {
		return ctx, nil, rt.unsupported("leases")
	}
	wait := rt.config.BusyWait
	if busy != Wait {
		wait = 0
	}
	limit, cancel := context.WithTimeoutCause(ctx, wait, errBusyTimeout)
	defer cancel()
	leave, err := rt.queues.enter(limit, ref)
	if err != nil {
		return ctx, nil, busyTimeout(ctx, err, &session.BusyError{ID: ref.ID, Holder: rt.holder})
	}
	return ctx, &access{leave: leave}, nil
}
