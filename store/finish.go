package store

import (
	"context"
	"fmt"
	"time"
)

// FinishTimeout bounds a write that is made although its caller has gone. It is
// longer than a store tries to reach a database that is away.
const FinishTimeout = time.Minute

// Finish returns a context for what must be finished although the caller has
// gone, such as writing what was paid for. It does not end with ctx, but after
// FinishTimeout: a database that does not answer must hold up nobody for ever. The
// caller calls done.
func Finish(ctx context.Context) (finishing context.Context, done context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), FinishTimeout, fmt.Errorf("the store has not answered within %s", FinishTimeout))
}
