package task

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
)

// StopReason is why a loop of turns ended. No loop ends without one.
type StopReason string

// The reasons.
const (
	StopCompleted      StopReason = "completed"
	StopPolicy         StopReason = "policy_stop"
	StopIterations     StopReason = "max_iterations"
	StopLLMCalls       StopReason = "max_llm_calls"
	StopRecovered      StopReason = "max_recovered_responses"
	StopRepeated       StopReason = "max_repeated_iterations"
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
	StopCancelled      StopReason = "cancelled"
	StopEndedElsewhere StopReason = "cancelled_or_completed"
	StopLeaseLost      StopReason = "lease_lost"
	StopProvider       StopReason = "provider_error"
	StopError          StopReason = "error"
)

// The modes of a loop.
const (
	modeStep     = "step"
	modeFollowUp = "follow_up"
)

const (
	defaultIterations = 32
	defaultLLMCalls   = 40
	defaultEmpty      = 3
	defaultRecovered  = 2
	defaultRepeated   = 6
)

// None is a cap that allows nothing at all; a cap of 0 takes its default.
const None = -1

// KernelInput is what a loop of turns begins with.
type KernelInput struct {
	// StepID is whose counters are counted, the running step's where it is
	// empty. A loop that was broken off goes on from them.
	StepID string
	// Messages are said when the counters begin, and not again when the loop
	// goes on from them.
	Messages []session.Message

	MaxIterations         int // 0: 32
	MaxLLMCalls           int // 0: 40
	MaxEmptyResponses     int // 0: 3
	MaxRecoveredResponses int // 0: 2
	MaxRepeatedIterations int // 0: 6
}

// Outcome is how a loop of turns ended.
type Outcome struct {
	Messages       []session.Message
	Iterations     int
	LLMCalls       int
	EmptyResponses int
	StopReason     StopReason // never empty
	LoopBudgetStop StopReason // the reason again where one of the loop's own caps was reached
}

// Iteration is a pass of the loop, as a policy sees it. A policy may replace
// Messages.
type Iteration struct {
	Mode     string // step or follow_up
	StepID   string
	Messages []session.Message
	Counters session.StepCounts
}

// Policy decides what a loop of turns does. All methods but Request and Handle
// may do nothing. An error ends the loop; one that Stop makes ends it with a
// reason of its own.
type Policy interface {
	// StopBefore may end the loop before anything else happens.
	StopBefore(it *Iteration) (stop bool, reason StopReason)
	// Drain takes what has arrived.
	Drain(ctx context.Context, it *Iteration) error
	// Before prepares a request.
	Before(ctx context.Context, it *Iteration) error
	// Request asks the model.
	Request(ctx context.Context, it *Iteration) (Response, error)
	// Handle acts on an answer.
	Handle(ctx context.Context, answer Response, it *Iteration) (Decision, error)
	// After ends a pass.
	After(ctx context.Context, it *Iteration) error
}

// Response is what came of a request: an Answer, Recovered or Stopped.
type Response interface{ response() }

// Answer is what the model said.
type Answer struct {
	Message      session.Message
	FinishReason string
}

// Recovered is a request that failed and may be tried again with other
// messages.
type Recovered struct{ Messages []session.Message }

// Stopped is a request that was not made. Messages replace those of the
// iteration where they are not nil.
type Stopped struct {
	Messages []session.Message
	Reason   StopReason
}

func (Answer) response()    {}
func (Recovered) response() {}
func (Stopped) response()   {}

// Decision is what follows an answer. A Repeat does not count as an iteration.
// Empty sets how many answers in a row were empty, where it is not nil.
type Decision struct {
	Stop, Repeat bool
	Empty        *int
	Reason       StopReason // of a stop; empty: completed
}

// Stop is an error by which a policy ends the loop with a reason. Cause may be
// nil; it is what the loop returns.
func Stop(reason StopReason, cause error) error { return &stopped{reason, cause} }

type stopped struct {
	reason StopReason
	cause  error
}

func (e *stopped) Error() string {
	if e.cause != nil {
		return string(e.reason) + ": " + e.cause.Error()
	}
	return string(e.reason)
}
func (e *stopped) Unwrap() error { return e.cause }

// opener is a policy that has something to write when its loop begins.
type opener interface {
	opening() (stepID string, changes []session.Change)
}

// resumer is a policy that may find an answer that was given before the loop
// was broken off. It is handled and not asked for again.
type resumer interface {
	resume(it *Iteration) (Answer, bool)
}
