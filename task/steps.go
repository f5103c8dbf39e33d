package task

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// StopReason is why the work on a step ended. No work ends without one.
type StopReason string

// The reasons.
const (
	StopCompleted      StopReason = "completed"
	StopPolicy         StopReason = "policy_stop"
	StopIterations     StopReason = "max_iterations"
	StopLLMCalls       StopReason = "max_llm_calls"
	StopRecovered      StopReason = "max_recovered_responses"
	StopEmpty          StopReason = "max_empty_responses"
	StopContext        StopReason = "context_capacity_exhausted"
	StopTurnLimit      StopReason = session.BudgetTurns
	StopLifetime       StopReason = session.BudgetLifetime
	StopFuse           StopReason = session.BudgetFuse
	StopIterationLimit StopReason = session.BudgetIterations
	StopTokens         StopReason = session.BudgetTokens
	StopCost           StopReason = session.BudgetCost
	StopSoftDeadline   StopReason = "soft_deadline"
	StopWrapUp         StopReason = "wrap_up_requested"
	StopFeedbackSkip   StopReason = "step_feedback_skip"
	StopFeedbackRetry  StopReason = "step_feedback_retry"
	StopFeedbackStop   StopReason = "step_feedback_stop"
	StopApproval       StopReason = "awaiting_approval"
	StopUserInput      StopReason = "awaiting_user_input"
	StopDenied         StopReason = "user_denied"
	StopCancelled      StopReason = "cancelled"
	StopEndedElsewhere StopReason = "cancelled_or_completed"
	StopProvider       StopReason = "provider_error"
	StopError          StopReason = "error"
)

const (
	defaultIterations = 32
	defaultLLMCalls   = 40
	defaultEmpty      = 3
	defaultRecovered  = 2
)

// None is a cap that allows nothing at all; a cap of 0 takes its default.
const None = -1

// Caps bound the work on one step.
type Caps struct {
	MaxIterations         int // 0: 32
	MaxLLMCalls           int // 0: 40
	MaxEmptyResponses     int // 0: 3
	MaxRecoveredResponses int // 0: 2
}

func (c Caps) withDefaults() (Caps, error) {
	for _, cap := range []struct {
		name      string
		value     *int
		otherwise int
	}{
		{"MaxIterations", &c.MaxIterations, defaultIterations}, {"MaxLLMCalls", &c.MaxLLMCalls, defaultLLMCalls},
		{"MaxEmptyResponses", &c.MaxEmptyResponses, defaultEmpty}, {"MaxRecoveredResponses", &c.MaxRecoveredResponses, defaultRecovered},
	} {
		switch {
		case *cap.value < None:
			return c, &session.InvalidError{Field: cap.name, Reason: "is less than -1"}
		case *cap.value == None:
			*cap.value = 0
		case *cap.value == 0:
			*cap.value = cap.otherwise
		}
	}
	return c, nil
}

// StepInput is what the work on a step begins with.
type StepInput struct {
	// StepID is whose counts are counted, the running step's where it is empty.
	// Work that was interrupted continues from them.
	StepID string
	// Messages are said when the counts begin, and not again when the work
	// continues from them.
	Messages []session.Message
	Caps
}

// Outcome is how the work on a step ended.
type Outcome struct {
	Messages       []session.Message
	Iterations     int
	LLMCalls       int
	EmptyResponses int
	StopReason     StopReason // never empty
	LoopBudgetStop StopReason // the reason again where one of the caps was reached
}

// RunStep works on a step of the plan, as one execution of the agent loop and
// one version.
//
// The outcome's reason says how it ended. The error is the cause, where there
// is one: a BudgetError, what the provider said. Work that was interrupted, by
// the end of the context, a lost lease or the store, has an error and no
// reason; what is durable can be continued. An InvalidError for the input means
// that nothing was done.
func (r *Run) RunStep(ctx context.Context, in StepInput) (Outcome, error) {
	if in.StepID == "" {
		if current := r.state().Steps.Current; current != nil {
			in.StepID = *current
		}
	}
	caps, err := in.withDefaults()
	if err != nil {
		return Outcome{}, err
	}
	w := r.newWork(modeStep, in.StepID, caps)
	w.opening = in.Messages
	w.step, _ = r.state().Plan.Step(in.StepID)
	out, cause, err := w.run(ctx, nil)
	return out, errors.Join(err, cause)
}

// RunFollowUp answers a message of a user. When the window has no turns left,
// it is renewed once for a message, if a continuation and turns of the task's
// life are left.
func (r *Run) RunFollowUp(ctx context.Context, f session.FollowUp, c Caps) (Outcome, error) {
	caps, err := c.withDefaults()
	if err != nil {
		return Outcome{}, err
	}
	out, cause, err := r.answerFollowUp(ctx, f, caps, nil)
	return out, errors.Join(err, cause)
}

func (r *Run) answerFollowUp(ctx context.Context, f session.FollowUp, caps Caps, end func(context.Context, Outcome, error) error) (out Outcome, cause, err error) {
	for {
		w := r.newWork(modeFollowUp, followUpStep(f), caps)
		w.followUp = &f
		renewed := false
		out, cause, err = w.run(ctx, func(ctx context.Context, out Outcome, cause error) error {
			if out.StopReason == StopTurnLimit {
				if renewed, err = r.renewForFollowUp(ctx); err != nil || renewed {
					return err
				}
			}
			if end == nil {
				return nil
			}
			return end(ctx, out, cause)
		})
		if err != nil || !renewed {
			return out, cause, err
		}
	}
}

func followUpStep(f session.FollowUp) string { return "follow_up:" + f.ID }

// hook runs what the task does between two steps of the loop on the loop's
// session and returns it with all that was added.
func (w *work) hook(ctx context.Context, s session.Session, do func() error) (session.Session, error) {
	w.r.setLive(&s)
	err := w.follow(ctx)
	if err == nil {
		err = do()
	}
	next := w.r.session()
	w.booked = max(w.booked, next.Seq())
	return next, err
}

func stop(reason StopReason, cause error) error { return agent.Stop(string(reason), cause) }

// Before decides whether the model is asked: caps, what has arrived, budgets.
// Then it gives the hints that are due.
func (w *work) Before(ctx context.Context, s session.Session) (session.Session, error) {
	return w.hook(ctx, s, func() error {
		c := w.counts()
		switch {
		case c.Pause != "":
			return stop(StopDenied, errors.New(c.Pause))
		case c.Iterations >= w.caps.MaxIterations:
			return stop(StopIterations, nil)
		case c.LLMCalls >= w.caps.MaxLLMCalls:
			return stop(StopLLMCalls, nil)
		}
		wrapsUp, err := w.wrapUpAsked(ctx)
		if err == nil && !wrapsUp {
			err = w.drain(ctx)
		}
		if err != nil {
			return err
		}
		if c.Empty >= w.caps.MaxEmptyResponses {
			return stop(StopEmpty, nil)
		}
		if err := w.r.checkBudgets(ctx); err != nil {
			var over *session.BudgetError
			if errors.As(err, &over) {
				return stop(StopReason(over.Kind), over)
			}
			return err
		}
		if wrapsUp {
			return nil
		}
		return w.hint(ctx)
	})
}

// maxTokenRecoveries is how often a step's answers may be cut off and
// continued.
const maxTokenRecoveries = 6

// Answered asks again after an answer that was cut off or empty.
func (w *work) Answered(ctx context.Context, s session.Session, answer session.Message, finish string) (next session.Session, again bool, err error) {
	next, err = w.hook(ctx, s, func() error {
		visible := !answer.Content.Blank()
		switch {
		case cutOff(finish) && visible && w.counts().MaxTokenRecoveries < maxTokenRecoveries:
			again = true
			return w.note(ctx, "", cutOffText, func(c *session.StepCounts) { c.MaxTokenRecoveries++ })
		case !visible:
			again = true
			return w.note(ctx, "", emptyText, nil)
		}
		return nil
	})
	return next, again, err
}

// Failed compacts the window after a request that was too long.
func (w *work) Failed(ctx context.Context, s session.Session, cause error) (next session.Session, again bool, err error) {
	next, err = w.hook(ctx, s, func() error {
		var asked *agent.StopError
		if errors.As(cause, &asked) {
			return asked
		}
		if err := w.count(ctx, func(c *session.StepCounts) { c.LLMCalls++ }); err != nil || !llm.TooLong(cause) {
			return err
		}
		if err := w.recoverContext(ctx, cause); err != nil {
			return err
		}
		if err := w.count(ctx, func(c *session.StepCounts) { c.Recovered++ }); err != nil {
			return err
		}
		if w.counts().Recovered > w.caps.MaxRecoveredResponses {
			return stop(StopRecovered, nil)
		}
		again = true
		return nil
	})
	return next, again, err
}

func cutOff(finish string) bool {
	return strings.EqualFold(finish, "length") || strings.EqualFold(finish, "max_tokens")
}

// counts returns those of the step that runs.
func (w *work) counts() session.StepCounts {
	if c := w.r.state().Steps.Counts; c != nil && c.StepID == w.id {
		return *c
	}
	return session.StepCounts{StepID: w.id}
}

// counting alters the counts of the step that runs.
func (w *work) counting(alter func(*session.StepCounts)) func(*session.TaskState) {
	return func(s *session.TaskState) {
		if s.Steps.Counts == nil || s.Steps.Counts.StepID != w.id {
			s.Steps.Counts = &session.StepCounts{StepID: w.id}
		}
		alterCounts(s, alter)
	}
}

// alterCounts alters the counts there are.
func alterCounts(s *session.TaskState, alter func(*session.StepCounts)) {
	if s.Steps.Counts != nil {
		c := *s.Steps.Counts
		alter(&c)
		s.Steps.Counts = &c
	}
}

func (w *work) count(ctx context.Context, alter func(*session.StepCounts)) error {
	return w.r.append(ctx, edit{state: w.counting(alter)})
}

// note says something to the model on the user's side. Hint is its name, where
// it is given once in a step.
func (w *work) note(ctx context.Context, hint, text string, alter func(*session.StepCounts)) error {
	m := session.Message{Role: session.RoleUser, Trace: true, Content: session.Text(text)}
	if hint != "" {
		m.Metadata = session.Values{hintKey: raw(hint)}
	}
	return w.r.append(ctx, edit{
		changes: []session.Change{session.MessageAdded{Message: w.r.fresh(m)}},
		state: w.counting(func(c *session.StepCounts) {
			if hint != "" {
				c.Notes = c.Notes.With(hint)
			}
			if alter != nil {
				alter(c)
			}
		}),
	})
}
