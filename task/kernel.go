package task

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

// RunStep runs the loop of turns for a step of the plan.
//
// The outcome's reason says how it ended. The error is the cause, where there
// is one: a BudgetError, what the provider or a policy said, the end of the
// context, a lost lease. A store that fails breaks the loop off as the end of
// the process would: it is cancelled, with the store's error. An InvalidError for the input comes without a reason,
// and nothing was done.
func (r *Run) RunStep(ctx context.Context, in KernelInput, p Policy) (Outcome, error) {
	return r.runKernel(ctx, modeStep, in, p)
}

// RunFollowUp runs the loop of turns for a message of a user. When the window
// has no turns left, it is renewed once for a message, if a continuation and
// turns of the task's life are left.
func (r *Run) RunFollowUp(ctx context.Context, in KernelInput, p Policy) (Outcome, error) {
	for {
		out, err := r.runKernel(ctx, modeFollowUp, in, p)
		if out.StopReason != StopTurnLimit {
			return out, err
		}
		renewed, failed := r.renewForFollowUp(ctx)
		if failed != nil {
			return out, failed
		}
		if !renewed {
			return out, err
		}
	}
}

// kernel is one loop of turns.
type kernel struct {
	r    *Run
	p    Policy
	caps KernelInput
	it   *Iteration
}

func (r *Run) runKernel(ctx context.Context, mode string, in KernelInput, p Policy) (Outcome, error) {
	caps, err := in.withDefaults()
	if err != nil {
		return Outcome{}, err
	}
	k := &kernel{r: r, p: p, caps: caps, it: &Iteration{Mode: mode}}
	answer, open, err := k.begin(ctx, in)
	var reason StopReason
	if err == nil && open {
		reason, err = k.handle(ctx, answer)
	}
	for err == nil && reason == "" {
		reason, err = k.pass(ctx)
	}
	if err != nil {
		reason, err = k.ended(ctx, err)
	}
	if reason != StopLeaseLost && reason != StopEndedElsewhere {
		if saved := k.save(ctx); saved != nil && err == nil {
			reason, err = k.ended(ctx, saved)
		}
	}
	return k.outcome(reason), err
}

func (in KernelInput) withDefaults() (KernelInput, error) {
	for _, c := range []struct {
		name      string
		value     *int
		otherwise int
	}{
		{"MaxIterations", &in.MaxIterations, defaultIterations}, {"MaxLLMCalls", &in.MaxLLMCalls, defaultLLMCalls},
		{"MaxEmptyResponses", &in.MaxEmptyResponses, defaultEmpty}, {"MaxRecoveredResponses", &in.MaxRecoveredResponses, defaultRecovered},
		{"MaxRepeatedIterations", &in.MaxRepeatedIterations, defaultRepeated},
	} {
		switch {
		case *c.value < None:
			return in, &session.InvalidError{Field: c.name, Reason: fmt.Sprintf("%d is less than %d", *c.value, None)}
		case *c.value == None:
			*c.value = 0
		case *c.value == 0:
			*c.value = c.otherwise
		}
	}
	return in, nil
}

// begin takes up the counters of the step, or opens them with what is to be
// said. An answer that was not acted on yet is handed back.
func (k *kernel) begin(ctx context.Context, in KernelInput) (answer Answer, open bool, err error) {
	if err := k.alive(ctx); err != nil {
		return Answer{}, false, err
	}
	state := k.r.state()
	var changes []session.Change
	k.it.StepID = in.StepID
	if o, ok := k.p.(opener); ok {
		var id string
		if id, changes = o.opening(); k.it.StepID == "" {
			k.it.StepID = id
		}
	}
	if k.it.StepID == "" && state.Steps.Current != nil {
		k.it.StepID = *state.Steps.Current
	}
	counted := state.Steps.Counts
	if counted != nil && counted.StepID == k.it.StepID {
		k.it.Counters, k.it.Messages = *counted, k.r.session().WindowMessages()
		if again, ok := k.p.(resumer); ok {
			answer, open = again.resume(k.it)
			return answer, open, nil
		}
		return Answer{}, false, nil
	}
	for _, m := range in.Messages {
		changes = append(changes, session.MessageAdded{Message: k.r.fresh(m)})
	}
	k.it.Counters = session.StepCounts{StepID: k.it.StepID}
	err = k.r.append(ctx, move{changes: changes, state: func(s *session.TaskState) {
		s.Steps.Counts = counters(k.it)
		if k.it.Mode == modeFollowUp {
			s.Loop.FollowUpRetries = 0
		}
		for _, c := range changes {
			if added, ok := c.(session.MessageAdded); ok && added.Message.Role == session.RoleUser {
				s.Said.User = added.Message.Content.Text()
			}
		}
	}})
	k.it.Messages = k.r.session().WindowMessages()
	return Answer{}, false, err
}

// fresh is a message with an id.
func (r *Run) fresh(m session.Message) session.Message {
	if m.ID == "" {
		m.ID = r.x.c.NewID()
	}
	return m
}

// counters is a copy of an iteration's.
func counters(it *Iteration) *session.StepCounts {
	c := it.Counters
	c.Notes = slices.Clone(c.Notes)
	return &c
}

// alive is the reason why nothing may be done any more.
func (k *kernel) alive(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if terminal(k.r.row().Status) {
		return session.ErrTaskTerminal
	}
	return nil
}

// pass is one pass of the loop; it ends with a reason, an error or neither.
func (k *kernel) pass(ctx context.Context) (StopReason, error) {
	c := &k.it.Counters
	if err := k.alive(ctx); err != nil {
		return "", err
	}
	switch {
	case c.Iterations >= k.caps.MaxIterations:
		return StopIterations, nil
	case c.LLMCalls >= k.caps.MaxLLMCalls:
		return StopLLMCalls, nil
	}
	if stop, reason := k.p.StopBefore(k.it); stop {
		return orReason(reason, StopPolicy), nil
	}
	if err := k.p.Drain(ctx, k.it); err != nil {
		return "", err
	}
	if c.Empty >= k.caps.MaxEmptyResponses {
		return StopEmpty, nil
	}
	if err := k.r.checkBudgets(ctx); err != nil {
		return "", err
	}
	c.Iterations++
	if err := k.p.Before(ctx, k.it); err != nil {
		c.Iterations-- // nobody was asked
		return "", err
	}
	c.LLMCalls++
	response, err := k.p.Request(ctx, k.it)
	if err != nil {
		return "", err
	}
	switch a := response.(type) {
	case Stopped:
		if a.Messages != nil {
			k.it.Messages = a.Messages
		}
		return orReason(a.Reason, StopPolicy), nil
	case Recovered:
		k.it.Messages = a.Messages
		c.Iterations--
		c.Recovered++
		if c.Recovered > k.caps.MaxRecoveredResponses {
			return StopRecovered, nil
		}
		return "", k.save(ctx)
	}
	return k.handle(ctx, response)
}

// handle acts on an answer and ends the pass.
func (k *kernel) handle(ctx context.Context, answer Response) (StopReason, error) {
	c := &k.it.Counters
	decision, err := k.p.Handle(ctx, answer, k.it)
	if err != nil {
		return "", err
	}
	if decision.Empty != nil {
		c.Empty = *decision.Empty
	}
	if decision.Repeat {
		c.Iterations--
		c.Repeated++
		if c.Repeated > k.caps.MaxRepeatedIterations {
			return StopRepeated, nil
		}
	}
	if err := k.p.After(ctx, k.it); err != nil {
		return "", err
	}
	if decision.Stop {
		return orReason(decision.Reason, StopCompleted), nil
	}
	return "", k.save(ctx)
}

// save makes the counters durable where a policy's own writes have not.
func (k *kernel) save(ctx context.Context) error {
	if k.it.Counters.StepID == "" && reflect.DeepEqual(k.it.Counters, session.StepCounts{}) {
		return nil
	}
	if kept := k.r.state().Steps.Counts; kept != nil && reflect.DeepEqual(*kept, *counters(k.it)) {
		return nil
	}
	return k.r.append(ctx, move{state: func(s *session.TaskState) { s.Steps.Counts = counters(k.it) }})
}

// ended is the reason that an error ends the loop for. The error of a stop that
// was asked for is its cause.
func (k *kernel) ended(ctx context.Context, err error) (StopReason, error) {
	var budget *session.BudgetError
	var asked *stopped
	var unwritten *storeError
	switch {
	case errors.Is(err, session.ErrFenced), errors.Is(context.Cause(ctx), session.ErrFenced):
		return StopLeaseLost, session.ErrFenced
	case errors.As(err, &unwritten):
		return StopCancelled, err // broken off, as by the end of the process
	case errors.As(err, &asked):
		return orReason(asked.reason, StopPolicy), asked.cause
	case errors.As(err, &budget):
		return StopReason(budget.Kind), budget
	case errors.Is(err, session.ErrTaskTerminal):
		return StopEndedElsewhere, nil
	case ctx.Err() != nil:
		return StopCancelled, context.Cause(ctx)
	}
	return StopError, err
}

func (k *kernel) outcome(reason StopReason) Outcome {
	c := k.it.Counters
	out := Outcome{Messages: k.it.Messages, Iterations: c.Iterations, LLMCalls: c.LLMCalls, EmptyResponses: c.Empty, StopReason: reason}
	switch reason {
	case StopIterations, StopLLMCalls, StopRecovered, StopRepeated:
		out.LoopBudgetStop = reason
	}
	return out
}

func orReason(reason, otherwise StopReason) StopReason {
	if reason == "" {
		return otherwise
	}
	return reason
}

// terminal reports a status that a task does not leave by itself.
func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}
