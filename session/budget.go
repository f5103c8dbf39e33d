package session

import (
	"fmt"
	"time"
)

// Budget bounds one execution, subagents included. A nil field is no limit,
// zero lets nothing run.
type Budget struct {
	MaxSteps   *int64     `json:"maxSteps,omitempty"`
	MaxTokens  *int64     `json:"maxTokens,omitempty"`  // input + output
	MaxSeconds *float64   `json:"maxSeconds,omitempty"` // active time
	MaxCost    *Cost      `json:"maxCost,omitempty"`    // US dollars
	Deadline   *time.Time `json:"deadline,omitempty"`
}

// BudgetUse is one limit of a budget, of an execution, a run or a task, and how
// much of it is used.
type BudgetUse struct {
	Kind      string
	Used, Max float64
}

// FirstUsedUp returns the first limit that leaves no room; false while all do.
func FirstUsedUp(uses ...BudgetUse) (BudgetUse, bool) {
	for _, u := range uses {
		if u.Used >= u.Max {
			return u, true
		}
	}
	return BudgetUse{}, false
}

// Kinds of budgets, which are also the reasons a loop of turns stops for.
const (
	BudgetLifetime   = "lifetime_limit"
	BudgetFuse       = "emergency_fuse"
	BudgetTurns      = "turn_limit"
	BudgetIterations = "iteration_limit"
	BudgetTokens     = "token_budget"
	BudgetCost       = "cost_budget"
)

// BudgetError is a task that has used up one of its budgets.
type BudgetError BudgetUse

func (e *BudgetError) Error() string {
	switch e.Kind {
	case BudgetLifetime:
		return fmt.Sprintf("lifetime turn limit exceeded: %.0f/%.0f turns", e.Used, e.Max)
	case BudgetFuse:
		return fmt.Sprintf("emergency turn fuse exceeded: %.0f/%.0f turns", e.Used, e.Max)
	case BudgetTurns:
		return fmt.Sprintf("global turn limit exceeded: %.0f/%.0f turns", e.Used, e.Max)
	case BudgetIterations:
		return fmt.Sprintf("iteration limit exceeded: %.0f/%.0f iterations", e.Used, e.Max)
	case BudgetTokens:
		return fmt.Sprintf("token budget exceeded: %.0f/%.0f tokens", e.Used, e.Max)
	case BudgetCost:
		return fmt.Sprintf("cost budget exceeded: %.4f/%.4f", e.Used, e.Max)
	}
	return fmt.Sprintf("budget %s exceeded: %g/%g", e.Kind, e.Used, e.Max)
}
func (e *BudgetError) Unwrap() error { return ErrBudget }
