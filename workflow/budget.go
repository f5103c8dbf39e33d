package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// used is one budget and how much of it is used.
type used struct {
	name        string
	have, limit float64
}

// overBudget returns the first budget that leaves no room for another unit, or
// for another call within one; nil while there is room.
func (x *runner) overBudget(r *run, unit bool) error {
	for _, u := range x.budgets(r) {
		if u.name == "max_steps" {
			if !unit {
				continue
			}
			u.have += float64(x.active)
		}
		if u.have >= u.limit {
			return fmt.Errorf("%s used up: %.6g of %.6g; raise it in the spec and resume with --accept-changes", u.name, u.have, u.limit)
		}
	}
	return nil
}

// budgets lists those that the spec sets, with what is used of them.
func (x *runner) budgets(r *run) []used {
	b := r.spec.Runtime.Budgets
	if b == nil {
		return nil
	}
	s := x.hold.Session()
	w := s.Workflow()
	var list []used
	if b.MaxSteps != nil {
		list = append(list, used{"max_steps", float64(w.Steps), float64(*b.MaxSteps)})
	}
	if b.MaxTokens != nil {
		u := usageOf(w)
		list = append(list, used{"max_tokens", float64(u.Input + u.Output), float64(*b.MaxTokens)})
	}
	if b.MaxDurationS != nil {
		list = append(list, used{"max_duration_s", x.seconds(), float64(*b.MaxDurationS)})
	}
	return list
}

// afterUnit checks the budgets once a unit is paid for: it warns once, and ends
// a run that has used more than it may.
func (x *runner) afterUnit(ctx context.Context, r *run) error {
	x.budget.Lock()
	defer x.budget.Unlock()
	for _, u := range x.budgets(r) {
		threshold := r.spec.Runtime.Budgets.Warn()
		if u.have < threshold*u.limit || x.hold.Session().Workflow().Warned {
			continue
		}
		if err := x.append(ctx, r, "the budget's warning", session.BudgetWarned{Budget: u.name, Used: u.have, Limit: u.limit}); err != nil {
			return err
		}
		x.emit(r, BudgetWarning, BudgetData{u.name, u.have, u.limit})
	}
	return x.overspent(r)
}

// overspent returns the first budget of which more was used than there is.
func (x *runner) overspent(r *run) error {
	for _, u := range x.budgets(r) {
		if u.have > u.limit {
			return &RunError{Kind: KindBudget, Err: fmt.Errorf(
				"%s exceeded: %.6g of %.6g; raise it in the spec and resume with --accept-changes", u.name, u.have, u.limit)}
		}
	}
	return nil
}

// bound ends a call when the time of the run is over.
func (x *runner) bound(ctx context.Context, r *run) (context.Context, context.CancelFunc) {
	b := r.spec.Runtime.Budgets
	if b == nil || b.MaxDurationS == nil {
		return context.WithCancel(ctx)
	}
	left := time.Duration((float64(*b.MaxDurationS) - x.seconds()) * float64(time.Second))
	return context.WithTimeout(ctx, max(left, 0))
}
