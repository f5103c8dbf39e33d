package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// subscribeChanges returns a channel that receives when something about a
// session may have changed. Where the store cannot wake it never does, and
// waiting is polling.
func (rt *Runtime) subscribeChanges(ref store.Ref) (changed <-chan struct{}, stop func()) {
	if rt.wakes == nil {
		return nil, func() {}
	}
	return rt.wakes.Subscribe(ref)
}

// await waits for a change or for the time to look again.
func (rt *Runtime) await(ctx context.Context, changed <-chan struct{}, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	case <-rt.closing.Done():
		return session.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
