package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// overBudget returns the first budget that leaves no room for another unit, or
// for another call within one; nil while there is room.
func (x *runner) overBudget(r *run, unit bool) error {
	var uses []session.BudgetUse
	for _, u := range x.budgets(r) {
		if u.Kind == "max_steps" {
			if !unit {
				continue
			}
			u.Used += float64(x.active)
		}
		uses = append(uses, u)
	}
	if u, over := session.FirstUsedUp(uses...); over {
		return fmt.Errorf("%s used up: %.6g of %.6g; raise it in the spec and resume with --accept-changes", u.Kind, u.Used, u.Max)
	}
	return nil
}

// budgets lists those that the spec sets, with what is used of them.
func (x *runner) budgets(r *run) []session.BudgetUse {
	b := r.spec.Runtime.Budgets
	if b == nil {
		return nil
	}
	s := x.hold.Session()
	w := s.Workflow()
	var list []session.BudgetUse
	if b.MaxSteps != nil {
		list = append(list, session.BudgetUse{Kind: "max_steps", Used: float64(w.Steps), Max: float64(*b.MaxSteps)})
	}
	if b.MaxTokens != nil {
		u := usageOf(w)
		list = append(list, session.BudgetUse{Kind: "max_tokens", Used: float64(u.Input + u.Output), Max: float64(*b.MaxTokens)})
	}
	if b.MaxDurationS != nil {
		list = append(list, session.BudgetUse{Kind: "max_duration_s", Used: x.seconds(), Max: float64(*b.MaxDurationS)})
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
		if u.Used < threshold*u.Max || x.hold.Session().Workflow().Warned {
			continue
		}
		if err := x.append(ctx, r, "the budget's warning", session.BudgetWarned{Budget: u.Kind, Used: u.Used, Limit: u.Max}); err != nil {
			return err
		}
		x.emit(r, BudgetWarning, BudgetData{u.Kind, u.Used, u.Max})
	}
	return x.overspent(r)
}

// overspent returns the first budget of which more was used than there is.
func (x *runner) overspent(r *run) error {
	for _, u := range x.budgets(r) {
		if u.Used > u.Max {
			return &RunError{Kind: KindBudget, Err: fmt.Errorf(
				"%s exceeded: %.6g of %.6g; raise it in the spec and resume with --accept-changes", u.Kind, u.Used, u.Max)}
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
