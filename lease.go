package holdfast

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/holder"
)

// leaseKeeper renews a lease until it is stopped. Losing the lease ends the
// context of the work that relies on it.
type leaseKeeper struct {
	rt    *Runtime
	ref   store.Ref
	lease store.Lease

	halt context.CancelFunc
	done chan struct{}
	once sync.Once
}

// keepLease renews a lease in the background and calls lost when it is gone.
func (rt *Runtime) keepLease(ctx context.Context, lost context.CancelCauseFunc, ref store.Ref, lease store.Lease, ends time.Time) *leaseKeeper {
	renewing, halt := context.WithCancel(context.WithoutCancel(ctx))
	k := &leaseKeeper{rt: rt, ref: ref, lease: lease, halt: halt, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		if err := k.renew(renewing, ends); err != nil {
			lost(err)
		}
	}()
	return k
}

// renew renews the lease after a third of its length. Temporary errors are
// retried until the lease ends, and no try takes longer than that.
func (k *leaseKeeper) renew(ctx context.Context, ends time.Time) error {
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
func (k *leaseKeeper) stop() {
	k.halt()
	<-k.done
}

// release stops renewing and ends the lease. One that cannot be released runs
// out.
func (k *leaseKeeper) release(ctx context.Context) {
	k.once.Do(func() {
		k.stop()
		finishing, done := store.Finish(ctx)
		defer done()
		if err := k.rt.leases.Release(finishing, k.ref, k.lease); err != nil && !errors.Is(err, session.ErrNotFound) {
			k.rt.config.Logger.Warn("lease not released", "session", k.ref.ID, "error", k.rt.redactText(err.Error()))
		}
	})
}

// markReleased stops renewing after a save has ended the lease.
func (k *leaseKeeper) markReleased() { k.once.Do(k.stop) }

// processHolder names this process and runtime. Where the system does not
// tell when a process began, a lease of a dead one runs out instead.
func processHolder(runtime, address string) string {
	name, err := holder.Name()
	if err != nil {
		name = fmt.Sprintf("unknown/%d", os.Getpid())
	}
	name = fmt.Sprintf("%s/%.8s", name, runtime)
	if address != "" {
		name += addressMark + address
	}
	return name
}

const addressMark = "@"

// AddressOf returns where the holder of a lease can be reached, or "".
func AddressOf(l store.Lease) string {
	_, address, _ := strings.Cut(l.Holder, addressMark)
	return address
}
