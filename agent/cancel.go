package agent

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
)

// errCancelled is why the context of a call ended that was running when
// somebody cancelled the execution.
var errCancelled = errors.New("the execution was cancelled")

// Cancelled reports that the context of a running call ended because somebody
// cancelled the execution: what was done is kept and the execution ends. A
// context that ended for any other reason is an interruption, which can be
// continued.
func Cancelled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCancelled) }

// errTimeOver is why the context of a call ended that was running when the
// execution's time was over.
var errTimeOver = errors.New("the execution's time is over")

// Ended reports that the context of a running call ended because the execution
// does: somebody cancelled it, or its time is over.
func Ended(ctx context.Context) bool {
	return Cancelled(ctx) || errors.Is(context.Cause(ctx), errTimeOver)
}

// callContext returns the context of calls to a model or to tools. It ends with
// the execution's time or deadline, and when somebody cancels the execution.
// The caller calls done.
func (r *run) callContext(ctx context.Context, e *session.Execution) (work context.Context, done func()) {
	bounded, unbind := r.bound(ctx, e)
	if r.Cancel == nil || r.Inbox == nil {
		return bounded, unbind
	}
	work, cancel := context.WithCancelCause(bounded)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		if r.Cancel(work, e.ID) == nil {
			cancel(errCancelled)
		}
	}()
	return work, func() {
		cancel(nil)
		unbind()
		<-listening
	}
}
