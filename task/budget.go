package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Budget is what a task may use. A zero field takes its default; a nil one is
// no bound, or on.
type Budget struct {
	MaxTurns      int      `json:"maxTurns,omitempty"`      // of a window; 0: no cap
	LifetimeTurns int      `json:"lifetimeTurns,omitempty"` // of all windows
	TurnPolicy    string   `json:"turnPolicy,omitempty"`    // hard_window or adaptive_unbounded
	MaxTokens     *int64   `json:"maxTokens,omitempty"`
	MaxCost       *float64 `json:"maxCost,omitempty"` // dollars

	AutoContinuation     *bool         `json:"autoContinuation,omitempty"`
	MaxAutoContinuations *int          `json:"maxAutoContinuations,omitempty"`
	ContinuationPolicy   string        `json:"continuationPolicy,omitempty"` // adaptive_progress or fixed_caps
	MinProgressScore     *float64      `json:"minProgressScore,omitempty"`
	LoopWarning          int           `json:"loopWarning,omitempty"`
	LoopCritical         int           `json:"loopCritical,omitempty"`
	NoProgressBreaker    int           `json:"noProgressBreaker,omitempty"`
	Compaction           *bool         `json:"compaction,omitempty"`
	CompactionRatio      float64       `json:"compactionRatio,omitempty"`
	StepTimeout          time.Duration `json:"stepTimeout,omitempty"`
}

// What becomes of a window that has no turns left.
const (
	HardWindow        = "hard_window"        // the loop stops
	AdaptiveUnbounded = "adaptive_unbounded" // it is told once, and goes on
)

// What a continuation needs.
const (
	AdaptiveProgress = "adaptive_progress" // progress, besides the caps
	FixedCaps        = "fixed_caps"
)

// Check refuses a budget that cannot be meant so.
func (b Budget) Check() error {
	_, err := b.limits(false)
	return err
}

// iterationsOfWindow is how many turns of the loop a window has at most.
const iterationsOfWindow = 100

// limits is a budget with its defaults filled in.
type limits struct {
	window     int // 0: no cap
	policy     string
	lifetime   int
	fuse       int
	iterations int
	tokens     *int64
	cost       *float64

	auto         bool
	maxAuto      int
	continuation string
	minScore     float64
	warning      int
	critical     int
	breaker      int
	compaction   bool
	ratio        float64
	stepTimeout  time.Duration
}

func (b Budget) limits(deep bool) (limits, error) {
	l := limits{
		window: b.MaxTurns, policy: b.TurnPolicy, iterations: iterationsOfWindow, tokens: b.MaxTokens, cost: b.MaxCost,
		auto: orValue(b.AutoContinuation, true), maxAuto: orValue(b.MaxAutoContinuations, 5),
		continuation: b.ContinuationPolicy, minScore: orValue(b.MinProgressScore, 0.15),
		warning: b.LoopWarning, critical: b.LoopCritical, breaker: b.NoProgressBreaker,
		compaction: orValue(b.Compaction, true), ratio: b.CompactionRatio, stepTimeout: b.StepTimeout,
	}
	basis, timeout := 80, 15*time.Minute
	if deep {
		basis, timeout = 200, 45*time.Minute
		l.maxAuto = orValue(b.MaxAutoContinuations, 7)
	}
	if l.policy == "" {
		l.policy = AdaptiveUnbounded
		if l.window > 0 {
			l.policy = HardWindow
		}
	}
	if l.window > 0 {
		basis = l.window
	}
	l.continuation = cmp.Or(l.continuation, AdaptiveProgress)
	l.warning, l.critical, l.breaker = cmp.Or(l.warning, 2), cmp.Or(l.critical, 6), cmp.Or(l.breaker, 30)
	l.ratio = min(max(cmp.Or(l.ratio, 0.75), 0.5), 0.95)
	l.stepTimeout = cmp.Or(l.stepTimeout, timeout)
	l.fuse = max(2000, 20*basis)
	if l.lifetime = b.LifetimeTurns; l.lifetime == 0 {
		l.lifetime = min(max(4*basis, 120), 320)
		if deep {
			l.lifetime = min(max(6*basis, 320), 1200)
		}
		if l.policy == AdaptiveUnbounded {
			l.lifetime = max(2000, 5*l.lifetime)
		}
	}
	return l, b.check(l)
}

func (b Budget) check(l limits) error {
	refuse := func(field, reason string) error {
		return &session.InvalidError{Field: "budget." + field, Reason: reason}
	}
	switch {
	case b.MaxTurns < 0 || b.LifetimeTurns < 0 || l.maxAuto < 0 || b.NoProgressBreaker < 0 || b.StepTimeout < 0:
		return refuse("turns", "a number is negative")
	case b.MaxTurns > math.MaxInt32 || b.LifetimeTurns > math.MaxInt32:
		return refuse("turns", "a number is too large")
	case b.MaxTokens != nil && *b.MaxTokens < 0:
		return refuse("maxTokens", "is negative")
	case b.MaxCost != nil && !(*b.MaxCost >= 0 && *b.MaxCost <= math.MaxFloat64):
		return refuse("maxCost", "is no amount of money")
	case l.policy != HardWindow && l.policy != AdaptiveUnbounded:
		return refuse("turnPolicy", fmt.Sprintf("%q is neither %s nor %s", l.policy, HardWindow, AdaptiveUnbounded))
	case l.continuation != AdaptiveProgress && l.continuation != FixedCaps:
		return refuse("continuationPolicy", fmt.Sprintf("%q is neither %s nor %s", l.continuation, AdaptiveProgress, FixedCaps))
	case l.warning < 1 || l.warning >= l.critical:
		return refuse("loopWarning", fmt.Sprintf("%d is not below loopCritical, %d", l.warning, l.critical))
	case math.IsNaN(l.minScore) || math.IsNaN(b.CompactionRatio):
		return refuse("minProgressScore", "is no number")
	}
	return nil
}

func orValue[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// softDeadline is how long a step may take before it is asked to end.
func (l limits) softDeadline() time.Duration {
	soft := max(l.stepTimeout*9/10, 20*time.Second)
	return max(min(soft, l.stepTimeout-10*time.Second), 0)
}

// budget is what the task was given.
func (r *Run) budget() Budget {
	var b Budget
	raw := r.state().Settings.Budget
	if len(raw) == 0 || json.Unmarshal(raw, &b) != nil {
		return r.x.c.Budget
	}
	return b
}

// limits are those in force. A budget was checked when it was written.
func (r *Run) limits() limits {
	l, err := r.budget().limits(r.state().Settings.Deep)
	if err != nil { // of a foreign task: the defaults are safe
		l, _ = Budget{}.limits(r.state().Settings.Deep)
	}
	return l
}

// turns is how many turns are left.
type turns struct {
	window   int // math.MaxInt: no cap
	lifetime int
}

func (t turns) left() int { return min(t.window, t.lifetime) }

func (l limits) turnsLeft(loop session.TaskLoop) turns {
	t := turns{window: math.MaxInt, lifetime: max(l.lifetime-loop.LifetimeTurns, 0)}
	if l.window > 0 && l.policy == HardWindow {
		t.window = max(l.window-loop.Turns, 0)
	}
	return t
}

// tokensUsed and costUsed are those of all windows.
func tokensUsed(u session.TaskUsage) int64 {
	return u.EarlierInput + u.EarlierOutput + u.Input + u.Output
}

func costUsed(u session.TaskUsage) float64 { return u.EarlierCost + u.Cost }

// lasting are the budgets that a new window does not renew.
func (l limits) lasting(s *session.TaskState) []session.BudgetUse {
	uses := []session.BudgetUse{{Kind: session.BudgetLifetime, Used: float64(s.Loop.LifetimeTurns), Max: float64(l.lifetime)}}
	if l.tokens != nil {
		uses = append(uses, session.BudgetUse{Kind: session.BudgetTokens, Used: float64(tokensUsed(s.Usage)), Max: float64(*l.tokens)})
	}
	if l.cost != nil {
		uses = append(uses, session.BudgetUse{Kind: session.BudgetCost, Used: session.Dollars(costUsed(s.Usage)).Dollars(), Max: session.Dollars(*l.cost).Dollars()})
	}
	return uses
}

// usedUp is the error of the first budget that leaves no room, nil while all do.
func usedUp(uses ...session.BudgetUse) error {
	use, over := session.FirstUsedUp(uses...)
	if !over {
		return nil
	}
	failed := session.BudgetError(use)
	return &failed
}

// checkBudgets is asked before each request. A BudgetError says which one is
// used up first.
func (r *Run) checkBudgets(ctx context.Context) error {
	l, s := r.limits(), r.state()
	lasting := l.lasting(&s)
	if err := usedUp(lasting[0]); err != nil { // the turns of the task's life
		return err
	}
	turns := float64(s.Loop.Turns)
	if err := usedUp(session.BudgetUse{Kind: session.BudgetFuse, Used: turns, Max: float64(l.fuse)}); err != nil {
		return cmp.Or(r.append(ctx, edit{changes: []session.Change{event("safety_stop_triggered", fuseBlown{
			TaskID: r.ID(), Policy: l.policy, Reason: "emergency_turn_fuse_exceeded",
			Turns: s.Loop.Turns, Fuse: l.fuse, NextActions: nextActions(),
		})}}), err)
	}
	if l.window > 0 {
		over := usedUp(session.BudgetUse{Kind: session.BudgetTurns, Used: turns, Max: float64(l.window)})
		if over != nil && l.policy == HardWindow {
			return over
		}
		if over != nil {
			if err := r.tellSoftExhausted(ctx, l, s.Loop); err != nil {
				return err
			}
		}
	}
	iterations := session.BudgetUse{Kind: session.BudgetIterations, Used: float64(s.Loop.Iterations), Max: float64(l.iterations)}
	return usedUp(append([]session.BudgetUse{iterations}, lasting...)...)
}

// tellSoftExhausted says once in a window that its turns are used up.
func (r *Run) tellSoftExhausted(ctx context.Context, l limits, loop session.TaskLoop) error {
	if loop.LowTurnsNoted {
		return nil
	}
	return r.append(ctx, edit{
		changes: []session.Change{event("turn_window_soft_exhausted", windowExhausted{
			TaskID: r.ID(), Policy: l.policy, Turns: loop.Turns, Window: l.window, LifetimeTurns: loop.LifetimeTurns, Lifetime: l.lifetime,
		})},
		state: func(s *session.TaskState) { s.Loop.LowTurnsNoted = true },
	})
}

// reserveTurns is how few turns are left when the model is asked to finish.
const reserveTurns = 4

// softLanding is the note that asks to finish, with its event, once in a
// window, when no turns beyond the few that are left can be had.
func (r *Run) softLanding(mode string) (text string, landing session.Change, due bool) {
	l, s := r.limits(), r.state()
	left := l.turnsLeft(s.Loop)
	more := l.auto && s.Loop.Continuations < l.maxAuto && left.lifetime > left.window
	if s.Loop.LandingNoted || more || left.left() > reserveTurns {
		return "", nil, false
	}
	return fmt.Sprintf(softLandingText, left.left()), event("budget_soft_landing", softLanding{
		Phase: mode, Left: left.left(), Reserve: reserveTurns, Window: l.window, Turns: s.Loop.Turns,
		LifetimeLeft: left.lifetime, Lifetime: l.lifetime, LifetimeTurns: s.Loop.LifetimeTurns,
	}), true
}
