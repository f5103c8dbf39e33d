package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

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
