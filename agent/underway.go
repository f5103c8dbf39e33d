package agent

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
)

// errCancelled is why the context of a call ended that was under way when
// somebody cancelled the execution.
var errCancelled = errors.New("the execution was cancelled")

// Cancelled reports that a context of a running call has ended because
// somebody cancelled the execution: what was done is kept and the execution
// comes to its end. A context that ended for any other reason is an
// interruption, which can be continued.
func Cancelled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCancelled) }

// underWay is the context of calls to a model or to tools. It ends when the
// execution's time or deadline does, and when somebody cancels the execution.
// Whoever asked for it calls done.
func (r *run) underWay(ctx context.Context, e *session.Execution) (work context.Context, done func()) {
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
