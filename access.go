package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// access is the right to act on a session. A short action has the session's
// slot in this process and no lease: between processes, writers race by
// version. A long one has a lease, which is renewed until it is released.
type access struct {
	fence int64
	lease *leaseKeeper
	leave func() // the queue; nil: it was left

	// onLease, while not nil, says that the lease is taken with the first write,
	// which calls it.
	onLease func(store.Lease, time.Time)
}

// release ends the lease and leaves the queue; it may be called twice.
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

// leaseNeed says when an action needs the lease.
type leaseNeed int

const (
	noLease             leaseNeed = iota // never
	leaseNow                             // before it begins
	leaseWithFirstWrite                  // with its first write
)

// leaseNeed says when an action needs the lease. Actions that run the agent
// write before they do anything that others could notice: their lease can be
// taken with that write, in one round trip.
func (rt *Runtime) leaseNeed(action Action) leaseNeed {
	switch {
	case rt.starts != nil && runsAgent(action):
		return leaseWithFirstWrite
	case leased(action):
		return leaseNow
	}
	return noLease
}

// enterSession waits until the caller may act on a session. A long action gets
// a lease where the store has leases; the context it gets ends with the lease.
// On a busy session it does what busy says; for Enqueue it returns a BusyError,
// and the caller enqueues.
func (rt *Runtime) enterSession(ctx context.Context, ref store.Ref, want leaseNeed, busy Busy) (context.Context, *access, error) {
	if rt.leases == nil {
		return rt.enterWithoutLeases(ctx, ref, busy)
	}
	limit, cancel := context.WithTimeoutCause(ctx, rt.config.BusyWait, errBusyTimeout)
	defer cancel()
	queue := limit
	if busy == Reject || busy == Enqueue { // a short action in this process is over soon
		var done context.CancelFunc
		queue, done = context.WithTimeoutCause(ctx, min(rt.config.BusyWait, 100*time.Millisecond), errBusyTimeout)
		defer done()
	}
	changed, stop := rt.subscribeChanges(ref)
	defer stop()
	asked := false
	for {
		granted, a, err := rt.tryEnterSession(queue, ctx, ref, want)
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
		if err := rt.await(limit, changed, rt.config.Poll); err != nil {
			return ctx, nil, busyTimeout(ctx, err, taken)
		}
	}
}

var errBusyTimeout = errors.New("waited long enough")

// busyTimeout returns the error for waiting too long: why the caller's context
// ended, or that the session stayed busy.
func busyTimeout(ctx context.Context, err error, taken *session.BusyError) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, session.ErrClosed) {
		return err
	}
	return taken
}

// tryEnterSession tries once. The BusyError names the holder of the lease.
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

// enterWithoutLeases is for stores without leases, where only the queue in this
// process orders the callers.
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
