package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// used is one budget and how far it is used up.
type used struct {
	name        string
	have, limit float64
}

// budgets are those the spec sets, as they stand now.
func (st *stage) budgets(r *run) []used {
	b := r.spec.Runtime.Budgets
	if b == nil {
		return nil
	}
	s := st.hold.Session()
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
		list = append(list, used{"max_duration_s", st.seconds(), float64(*b.MaxDurationS)})
	}
	return list
}

// overBudget is the first budget that leaves no room for another unit, or for
// another call within one; nil while there is room.
func (st *stage) overBudget(r *run, unit bool) error {
	for _, u := range st.budgets(r) {
		if u.name == "max_steps" {
			if !unit {
				continue
			}
			u.have += float64(st.begun)
		}
		if u.have >= u.limit {
			return fmt.Errorf("%s used up: %.6g of %.6g; raise it in the spec and resume with --accept-changes", u.name, u.have, u.limit)
		}
	}
	return nil
}

// afterUnit looks at the budgets once a unit is paid for: it warns once, and
// ends a run that has used more than it may.
func (st *stage) afterUnit(ctx context.Context, r *run) error {
	st.budget.Lock()
	defer st.budget.Unlock()
	for _, u := range st.budgets(r) {
		threshold := r.spec.Runtime.Budgets.Warn()
		if u.have < threshold*u.limit || st.hold.Session().Workflow().Warned {
			continue
		}
		if err := st.append(ctx, r, "the budget's warning", session.BudgetWarned{Budget: u.name, Used: u.have, Limit: u.limit}); err != nil {
			return err
		}
		st.emit(r, BudgetWarning, map[string]any{"budget": u.name, "used": u.have, "limit": u.limit})
	}
	return st.overspent(r)
}

// overspent is the first budget of which more was used than there is.
func (st *stage) overspent(r *run) error {
	for _, u := range st.budgets(r) {
		if u.have > u.limit {
			return &RunError{Kind: KindBudget, Err: fmt.Errorf(
				"%s exceeded: %.6g of %.6g; raise it in the spec and resume with --accept-changes", u.name, u.have, u.limit)}
		}
	}
	return nil
}

// bound ends a call when the time of the run is over.
func (st *stage) bound(ctx context.Context, r *run) (context.Context, context.CancelFunc) {
	b := r.spec.Runtime.Budgets
	if b == nil || b.MaxDurationS == nil {
		return context.WithCancel(ctx)
	}
	left := time.Duration((float64(*b.MaxDurationS) - st.seconds()) * float64(time.Second))
	return context.WithTimeout(ctx, max(left, 0))
}
