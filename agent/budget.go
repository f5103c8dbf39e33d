package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
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
	if use, over := session.FirstUsedUp(r.budgetUses(e, step)...); over {
		number := func(n float64) json.RawMessage { return strconv.AppendFloat(nil, n, 'f', -1, 64) }
		return stopAt(session.StopReason(use.Kind), number(use.Used), number(use.Max)), true
	}
	if now := r.Now(); b.Deadline != nil && !now.Before(*b.Deadline) {
		return stopAt(session.StopDeadline, timeText(now), timeText(*b.Deadline)), true
	}
	return session.Signal{}, false
}

// budgetUses lists the limits of an execution, except its deadline.
func (r *run) budgetUses(e *session.Execution, step bool) []session.BudgetUse {
	b := e.Budget
	var uses []session.BudgetUse
	if step && b.MaxSteps != nil {
		uses = append(uses, session.BudgetUse{Kind: string(session.StopSteps), Used: float64(len(e.Steps) + e.ChildSteps), Max: float64(*b.MaxSteps)})
	}
	if step && b.MaxTokens != nil {
		uses = append(uses, session.BudgetUse{Kind: string(session.StopTokens), Used: float64(e.Usage.Total()), Max: float64(*b.MaxTokens)})
	}
	if b.MaxSeconds != nil {
		uses = append(uses, session.BudgetUse{Kind: string(session.StopTime), Used: r.active(), Max: *b.MaxSeconds})
	}
	if b.MaxCost != nil {
		uses = append(uses, session.BudgetUse{Kind: string(session.StopCost), Used: e.Cost.Dollars(), Max: b.MaxCost.Dollars()})
	}
	return uses
}

// units names what each limit counts.
var units = map[session.StopReason]string{
	session.StopSteps: "steps", session.StopTokens: "tokens", session.StopTime: "seconds", session.StopCost: "dollars", session.StopDeadline: "deadline",
}

// stopAt is the signal of a limit that is used up. Used and most are numbers or
// times as JSON.
func stopAt(reason session.StopReason, used, most json.RawMessage) session.Signal {
	shown := func(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }
	return session.Signal{
		Reason: reason, Message: fmt.Sprintf("%s used up: %s of %s", units[reason], shown(used), shown(most)),
		Context: session.Values{"used": used, "limit": most}, Source: "budget",
	}
}

func timeText(t time.Time) json.RawMessage {
	return strconv.AppendQuote(nil, session.Instant(t).Format(time.RFC3339Nano))
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
