package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// ContinueMode is who asked for a continuation.
type ContinueMode string

// The modes.
const (
	ContinueAuto   ContinueMode = "auto"
	ContinueManual ContinueMode = "manual"
)

// ContinueOptions raise what a task may use; nil and 0 leave it as it is.
type ContinueOptions struct {
	LifetimeTurns int
	MaxTokens     *int64
	MaxCost       *float64
}

// raised is a budget with the options in it.
func (o ContinueOptions) raised(b Budget) Budget {
	if o.LifetimeTurns != 0 {
		b.LifetimeTurns = o.LifetimeTurns
	}
	if o.MaxTokens != nil {
		b.MaxTokens = o.MaxTokens
	}
	if o.MaxCost != nil {
		b.MaxCost = o.MaxCost
	}
	return b
}

// AutoContinue goes on with the plan in a new window, as long as that is
// allowed and promises something. It does nothing and says no unless cause is
// the window's limit of turns. False with no error says that the task was
// paused for a person to decide.
func (r *Run) AutoContinue(ctx context.Context, cause error) (bool, error) {
	for {
		var over *session.BudgetError
		if !errors.As(cause, &over) || over.Kind != session.BudgetTurns {
			return false, nil
		}
		allowed, err := r.decide(ctx)
		if err != nil || !allowed {
			return false, err
		}
		err = r.goOn(ctx, ContinueAuto)
		if err == nil {
			return true, nil
		}
		if !errors.As(err, &over) || over.Kind != session.BudgetTurns {
			return false, err
		}
		cause = err
	}
}

// decision is whether a window may be continued, and all that it is based on.
type decision struct {
	l limits
	a assessment
	s session.TaskState // the streak counted

	block   string // empty: allowed
	breaker bool
	loop    bool
	quiet   bool // no safety stop
}

// decide assesses the window and writes the decision. A blocked task is paused
// in the same write.
func (r *Run) decide(ctx context.Context) (bool, error) {
	a, err := r.assessWindow(ctx)
	if err != nil {
		return false, err
	}
	d := decision{l: r.limits(), a: a, s: r.state()}
	d.count(&d.s)
	d.judge()
	changes := []session.Change{d.event(d.block == "", cmp.Or(d.block, "Continuation approved."))}
	state := func(s *session.TaskState) { d.count(s) }
	row := func(t *session.TaskRow) {
		t.LastProgressScore, t.AutoContinueBlockReason = &a.score, d.block
	}
	if d.block == "" {
		if d.a.repeats >= d.l.warning {
			changes = append(changes, event("step_contract_escalated", contractEscalated{
				Reason: "loop_warning_threshold_reached", Repeats: a.repeats, Threshold: d.l.warning, Dominant: d.dominant(),
			}))
			state = func(s *session.TaskState) {
				d.count(s)
				s.Loop.Advice = fmt.Sprintf(strategySwitchText, a.repeats, d.dominant())
			}
		}
		return true, r.append(ctx, edit{changes: changes, state: state, row: row})
	}
	return false, r.seal(ctx, "task.pause", edit{
		changes: append(changes, r.blocked(d)...),
		state: func(s *session.TaskState) {
			d.count(s)
			if d.loop && a.dominant != nil {
				s.Loop.BlockedText, s.Loop.Blocked = new(a.dominant.String()), new(a.dominant.Signature())
			}
		},
		row: func(t *session.TaskRow) {
			row(t)
			t.Status, t.TerminalStatus, t.FailureClass = Paused, TerminalNeedsUser, ClassBudget
		},
	})
}

// count moves the streak of windows without progress, once for each window.
func (d *decision) count(s *session.TaskState) {
	if d.a.dominant != nil {
		s.Loop.Fingerprint = d.a.dominant.String()
	}
	if s.Loop.NoProgressWindow == s.Loop.Window {
		return
	}
	s.Loop.NoProgressWindow = s.Loop.Window
	if d.a.score <= 0 {
		s.Loop.NoProgress++
	} else {
		s.Loop.NoProgress = 0
	}
}

// judge finds the first reason against a continuation.
func (d *decision) judge() {
	l, loop := d.l, d.s.Loop
	switch {
	case !l.auto:
		d.block, d.quiet = "Auto continuation is disabled.", true
	case loop.LifetimeTurns >= l.lifetime:
		d.block = fmt.Sprintf("Lifetime turn limit reached (%d/%d).", loop.LifetimeTurns, l.lifetime)
	case !pendingSteps(d.s.Plan):
		d.block = "No pending plan steps remain to continue."
	case loop.NoProgress >= l.breaker:
		d.block, d.breaker = fmt.Sprintf("No-progress circuit breaker reached (%d/%d).", loop.NoProgress, l.breaker), true
	case loop.Continuations >= l.maxAuto:
		d.block = fmt.Sprintf("Auto continuation limit reached (%d/%d).", loop.Continuations, l.maxAuto)
	case d.a.repeats >= l.critical:
		d.block, d.loop = fmt.Sprintf("Loop fingerprint repeated too often (%d/%d).", d.a.repeats, l.critical), true
	case d.a.risk >= 0.7 || d.a.repeats >= 3:
		d.block = fmt.Sprintf("Loop risk is high (%.2f). Try changing strategy or constraints.", d.a.risk)
	case l.continuation == AdaptiveProgress && d.a.score < l.minScore:
		d.block = fmt.Sprintf("Recent progress score (%.2f) is below threshold (%.2f).", d.a.score, l.minScore)
	}
}

func (d *decision) dominant() string {
	if d.a.dominant == nil {
		return ""
	}
	return d.a.dominant.String()
}

// event is the decision as the log has it.
func (d *decision) event(allowed bool, reason string) session.Change {
	return event("continuation_decision", continuationDecision{
		Policy: d.l.continuation, Window: d.s.Loop.Window, Continuations: d.s.Loop.Continuations, MaxContinuations: d.l.maxAuto,
		Score: d.a.score, MinScore: d.l.minScore, Risk: d.a.risk, Repeats: d.a.repeats, Dominant: d.dominant(), NoProgress: d.s.Loop.NoProgress,
		Warning: d.l.warning, Critical: d.l.critical, Allowed: allowed, Reason: reason,
	})
}

// blocked are the events of a task that is not continued.
func (r *Run) blocked(d decision) []session.Change {
	var events []session.Change
	if !d.quiet {
		events = append(events, event("safety_stop_triggered", safetyStop{
			TaskID: r.ID(), Policy: d.l.policy, Reason: d.block, Score: d.a.score, Risk: d.a.risk, Repeats: d.a.repeats,
			NoProgress: d.s.Loop.NoProgress, Continuations: d.s.Loop.Continuations, MaxContinuations: d.l.maxAuto, NextActions: nextActions(),
		}))
	}
	if d.breaker {
		events = append(events, event("no_progress_circuit_breaker", breakerTripped{
			NoProgress: d.s.Loop.NoProgress, Threshold: d.l.breaker, Dominant: d.dominant(), NextActions: nextActions(),
		}))
	}
	return append(events,
		event("auto_continuation_blocked", continuationBlocked{
			Reason: d.block, Suggestion: nextActions()[1], Score: d.a.score, Risk: d.a.risk, NoProgress: d.s.Loop.NoProgress,
		}),
		event("error", turnLimitError{
			Message: d.block, Code: "TURN_LIMIT_EXCEEDED", Hint: actionHint{Type: "continue_task", Label: "Continue"},
		}))
}

func pendingSteps(p *session.Plan) bool {
	return slices.ContainsFunc(orPlan(p).Steps, func(s session.PlanStep) bool { return s.Status == stepPending })
}

// Continue goes on with the plan in a new window because somebody asked for
// it. Budgets that are not renewed with a window still hold: a BudgetError says
// which one the options have to raise, and nothing was done. ErrNoPlan where
// there is nothing to go on with.
func (r *Run) Continue(ctx context.Context, mode ContinueMode, o ContinueOptions) error {
	if terminal(r.row().Status) {
		return session.ErrTaskTerminal
	}
	budget, l, err := r.continuable(o)
	if err != nil {
		return err
	}
	if mode == ContinueManual {
		if err := r.decideManually(ctx, l, budget); err != nil {
			return err
		}
	}
	return r.goOn(ctx, mode)
}

// continuable returns the budget with the options in it, and its limits. An
// error says that the plan cannot go on with them.
func (r *Run) continuable(o ContinueOptions) (Budget, limits, error) {
	state, budget := r.state(), o.raised(r.budget())
	if state.Plan == nil {
		return budget, limits{}, session.ErrNoPlan
	}
	l, err := budget.limits(state.Settings.Deep)
	if err == nil {
		err = usedUp(l.lasting(&state)...)
	}
	return budget, l, err
}

// decideManually writes that a person decided.
func (r *Run) decideManually(ctx context.Context, l limits, b Budget) error {
	a, err := r.assessWindow(ctx)
	if err != nil {
		return err
	}
	d := decision{l: l, a: a, s: r.state()}
	d.count(&d.s)
	settings, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode budget: %w", err)
	}
	return r.append(ctx, edit{
		changes: []session.Change{d.event(true, "Manual continuation requested by user.")},
		state: func(s *session.TaskState) {
			d.count(s)
			s.Settings.Budget = settings
		},
		row: func(t *session.TaskRow) { t.LastProgressScore, t.AutoContinueBlockReason = &a.score, "" },
	})
}

// goOn begins a window, in one write: the continuation is counted, the window
// reset, the model told where it is. Then the plan is run to its end.
func (r *Run) goOn(ctx context.Context, mode ContinueMode) error {
	state := r.state()
	if state.Plan == nil {
		return session.ErrNoPlan
	}
	next := state.Loop
	next.Continuations++
	next.Window++
	m := r.windowReset(next, string(mode), "turn_limit_exhausted")
	a, err := r.assessWindow(ctx)
	if err != nil {
		return err
	}
	r.newWindow, r.idleStops = true, a.stops
	if mode == ContinueAuto {
		m.changes = append([]session.Change{event("auto_continuation_started", continuationStarted{
			Mode: mode, Continuations: next.Continuations, Window: next.Window, MaxContinuations: r.limits().maxAuto, Score: a.score, Risk: a.risk,
		})}, m.changes...)
	}
	if pendingSteps(state.Plan) {
		m = m.and(r.continuationContext())
	}
	if err := r.append(ctx, m); err != nil {
		return err
	}
	return r.x.perform(ctx, r)
}

// windowReset begins a window: what was used is kept apart, and what counted
// for the old one counts no more. Next has the counts of continuations.
func (r *Run) windowReset(next session.TaskLoop, mode, reason string) edit {
	u := r.state().Usage
	input, output := u.EarlierInput+u.Input, u.EarlierOutput+u.Output
	at := r.session().Seq()
	return edit{
		changes: []session.Change{event("budget_reset_for_continuation", budgetReset{
			Reason: reason, Mode: mode, Continuations: next.Continuations, Window: next.Window,
			Before: usageSum{Input: input, Output: output, Total: input + output, Cost: costUsed(u)},
		})},
		state: func(s *session.TaskState) {
			s.Usage = session.TaskUsage{EarlierInput: input, EarlierOutput: output, EarlierCost: costUsed(u)}
			l := &s.Loop
			l.Continuations, l.Window = next.Continuations, next.Window
			l.Turns, l.Iterations = 0, 0
			l.SoftDeadline, l.WrapUp, l.LowTurnsNoted, l.LandingNoted = false, false, false, false
			l.Blocked, l.BlockedText = nil, nil
			l.WindowStart = at
		},
	}
}

// continuationContext tells the model what is done and what is not, and moves
// the row.
func (r *Run) continuationContext() edit {
	state := r.state()
	var done, left []string
	for _, step := range state.Plan.Steps {
		switch step.Status {
		case stepCompleted:
			done = append(done, "  - [DONE] "+step.Description)
		case stepPending, stepInProgress:
			left = append(left, "  - [PENDING] "+step.Description)
		}
	}
	lines := []string{"TASK CONTINUATION CONTEXT:", "Plan: " + state.Plan.Description}
	lines = append(append(lines, fmt.Sprintf("Completed steps (%d):", len(done))), done...)
	lines = append(append(lines, fmt.Sprintf("Remaining steps (%d):", len(left))), left...)
	lines = append(lines, continuationText)
	if hint := state.Loop.Advice; hint != "" {
		lines = append(lines, hint)
	}
	text := strings.Join(lines, "\n")
	return edit{
		changes: []session.Change{
			session.MessageAdded{Message: session.Message{ID: r.x.c.NewID(), Role: session.RoleUser, Trace: true, Content: session.Text(text)}},
			session.MessageAdded{Message: session.Message{ID: r.x.c.NewID(), Role: session.RoleAssistant, Trace: true, Content: session.Text(ackText)}},
			event("executing", note{Message: "Continuing the plan"}),
		},
		state: func(s *session.TaskState) { s.Loop.Advice = "" },
		row: func(t *session.TaskRow) {
			t.Status, t.TerminalStatus, t.FailureClass, t.Error = Executing, "", "", ""
		},
	}
}

// renewForFollowUp gives a message another window, once.
func (r *Run) renewForFollowUp(ctx context.Context) (bool, error) {
	l, s := r.limits(), r.state()
	attempts := s.Loop.FollowUpRetries
	reason := ""
	switch {
	case attempts >= 1:
		reason = "The turns of this message were renewed already."
	case s.Loop.Continuations >= l.maxAuto || !l.auto:
		reason = fmt.Sprintf("Auto continuation limit reached (%d/%d).", s.Loop.Continuations, l.maxAuto)
	case s.Loop.LifetimeTurns >= l.lifetime:
		reason = fmt.Sprintf("Lifetime turn limit reached (%d/%d).", s.Loop.LifetimeTurns, l.lifetime)
	}
	if reason != "" {
		return false, r.append(ctx, edit{
			changes: []session.Change{event("follow_up_turn_recovery_blocked", recoveryBlocked{reason})},
			state:   func(s *session.TaskState) { s.Loop.FollowUpBlock = reason },
		})
	}
	next := s.Loop
	next.Continuations++
	next.Window++
	m := edit{
		changes: []session.Change{event("follow_up_turn_recovery_started", recoveryStarted{
			Attempt: attempts + 1, MaxAttempts: 1, Policy: l.policy, Turns: s.Loop.Turns, Window: l.window,
			Continuations: s.Loop.Continuations, MaxContinuations: l.maxAuto, LifetimeTurns: s.Loop.LifetimeTurns, Lifetime: l.lifetime, CanRecover: true,
		})},
		state: func(s *session.TaskState) { s.Loop.FollowUpRetries++ },
	}.and(r.windowReset(next, modeFollowUp, "follow_up_turn_limit_recovery"))
	m.changes = append(m.changes, event("follow_up_turn_recovery_completed", recoveryCompleted{
		Attempt: attempts + 1, Continuations: next.Continuations, Window: next.Window,
	}))
	return true, r.append(ctx, m)
}
