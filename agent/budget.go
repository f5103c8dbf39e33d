package agent

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// overBudget is the signal of the first limit that is used up. Before a step
// all limits count, before a tool call only time, money and the deadline.
func (r *run) overBudget(e *session.Execution, step bool) (session.Signal, bool) {
	b := e.Budget
	if b == nil {
		return session.Signal{}, false
	}
	if taken := len(e.Steps) + e.ChildSteps; step && b.MaxSteps != nil && int64(taken) >= *b.MaxSteps {
		return limit(session.StopSteps, "steps", taken, *b.MaxSteps), true
	}
	if step && b.MaxTokens != nil && e.Usage.Total() >= *b.MaxTokens {
		return limit(session.StopTokens, "tokens", e.Usage.Total(), *b.MaxTokens), true
	}
	if active := r.active(); b.MaxSeconds != nil && active >= *b.MaxSeconds {
		return limit(session.StopTime, "seconds", active, *b.MaxSeconds), true
	}
	if b.MaxCost != nil && e.Cost >= *b.MaxCost {
		return limit(session.StopCost, "dollars", e.Cost, *b.MaxCost), true
	}
	if now := r.Now(); b.Deadline != nil && !now.Before(*b.Deadline) {
		return limit(session.StopDeadline, "deadline", session.Instant(now), *b.Deadline), true
	}
	return session.Signal{}, false
}

func limit(reason session.StopReason, what string, used, most any) session.Signal {
	s := session.Signal{Reason: reason, Message: fmt.Sprintf("%s used up: %v of %v", what, used, most), Context: session.Values{}, Source: "budget"}
	for key, value := range map[string]any{"used": used, "limit": most} {
		if raw, err := session.JSON(value); err == nil { // numbers and times always encode
			s.Context[key] = raw
		}
	}
	return s
}

// bound ends a call when the execution's time or deadline does.
func (r *run) bound(ctx context.Context, e *session.Execution) (context.Context, context.CancelFunc) {
	b := e.Budget
	if b == nil || b.MaxSeconds == nil && b.Deadline == nil {
		return context.WithCancel(ctx)
	}
	left := time.Duration(math.MaxInt64)
	if b.MaxSeconds != nil {
		left = time.Duration(min((*b.MaxSeconds-r.active())*float64(time.Second), math.MaxInt64/2))
	}
	if b.Deadline != nil {
		left = min(left, b.Deadline.Sub(r.Now()))
	}
	return context.WithTimeoutCause(ctx, max(left, 0), errTimeOver)
}
