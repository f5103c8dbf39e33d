package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// turn is the policy by which tasks work: it asks the task's model and runs
// the tools it calls. Everything is durable before anything relies on it: the
// answer before the first tool runs, that a tool began before it does, its
// result before the model is asked again.
type turn struct {
	r        *Run
	step     session.PlanStep
	followUp *session.FollowUp
	began    time.Time
}

// stepPolicy is how a step of the plan is worked on.
func (r *Run) stepPolicy(step session.PlanStep) Policy {
	return &turn{r: r, step: step, began: r.x.c.Clock()}
}

// followUpPolicy is how a message is answered. The message is delivered when
// the loop begins.
func (r *Run) followUpPolicy(f session.FollowUp) Policy {
	return &turn{r: r, followUp: &f, began: r.x.c.Clock()}
}

// opening is the step that is counted; a follow-up is delivered with it.
func (p *turn) opening() (string, []session.Change) {
	if p.followUp == nil {
		return p.step.ID, nil
	}
	return followUpStep(*p.followUp), p.r.delivery(*p.followUp, "", followUpStep(*p.followUp))
}

func followUpStep(f session.FollowUp) string { return "follow_up:" + f.ID }

// resume finds an answer that was written and not acted on.
func (p *turn) resume(it *Iteration) (Answer, bool) {
	s := p.r.session()
	for i := s.Len() - 1; i >= 0; i-- {
		m := s.Message(i)
		if m.Role == session.RoleTool {
			continue
		}
		if m.Role != session.RoleAssistant || m.StepID != it.StepID {
			return Answer{}, false
		}
		if len(m.ToolCalls) > 0 && len(p.r.unanswered(m)) == 0 {
			return Answer{}, false
		}
		return Answer{Message: m, FinishReason: m.Metadata.String(finishKey)}, true
	}
	return Answer{}, false
}

// unanswered are the calls of a message that have no result.
func (r *Run) unanswered(m session.Message) []session.ToolCall {
	answered := map[string]bool{}
	s := r.session()
	for i := s.Len() - 1; i >= 0; i-- {
		later := s.Message(i)
		if later.Seq <= m.Seq {
			break
		}
		if later.ToolResult != nil {
			answered[later.ToolResult.CallID] = true
		}
	}
	var open []session.ToolCall
	for _, call := range m.ToolCalls {
		if !answered[call.ID] {
			open = append(open, call)
		}
	}
	return open
}

// StopBefore ends the loop when a person asked to finish.
func (p *turn) StopBefore(*Iteration) (bool, StopReason) {
	return p.r.state().Loop.WrapUp, StopWrapUp
}

// Drain looks at the clock, then takes what has arrived: feedback first, then
// follow-ups.
func (p *turn) Drain(ctx context.Context, it *Iteration) error {
	if p.followUp == nil && p.left() <= 0 {
		return p.late(ctx)
	}
	if err := p.r.drain(ctx, it); err != nil {
		return err
	}
	it.Messages = p.r.session().WindowMessages()
	return nil
}

// left is the time until the soft deadline.
func (p *turn) left() time.Duration {
	return p.r.limits().softDeadline() - p.r.x.c.Clock().Sub(p.began)
}

// late ends a step whose time is over.
func (p *turn) late(ctx context.Context) error {
	l := p.r.limits()
	cause := lateError{l.softDeadline()}
	step, _ := p.r.state().Plan.Step(p.step.ID)
	if step.ID == "" {
		step = p.step
	}
	err := p.r.append(ctx, move{
		changes: []session.Change{event("step_timeout", map[string]any{"step": step, "error": cause.Error(), "timeout": l.stepTimeout.Milliseconds()})},
		state:   func(s *session.TaskState) { s.Loop.SoftDeadline = true },
	})
	if err != nil {
		return err
	}
	return Stop(StopSoftDeadline, cause)
}

// lateError is a step that took too long.
type lateError struct{ after time.Duration }

func (e lateError) Error() string { return fmt.Sprintf(softDeadlineText, int(e.after.Seconds())) }

// Before gives the hints that are due and makes room in the window.
func (p *turn) Before(ctx context.Context, it *Iteration) error {
	if err := p.hint(ctx, it); err != nil {
		return err
	}
	if err := p.r.compactBeforeTurn(ctx); err != nil {
		return err
	}
	it.Messages = p.r.session().WindowMessages()
	return nil
}

// Request asks the model and writes its answer.
func (p *turn) Request(ctx context.Context, it *Iteration) (Response, error) {
	a, err := p.r.asking(ctx)
	if err != nil {
		return nil, Stop(StopProvider, err)
	}
	work, done := p.underWay(ctx)
	defer done()
	response, err := p.r.ask(work, a)
	if err != nil {
		return p.unanswered(ctx, work, it, a, err)
	}
	answer := p.r.heard(a, response, it.StepID)
	if err := p.write(ctx, it, answer); err != nil {
		return nil, err
	}
	it.Messages = p.r.session().WindowMessages()
	return Answer{Message: answer.message, FinishReason: answer.finish}, nil
}

// write makes an answer durable, with what it used and the counts of the loop.
// A reminder that the request carried is done with.
func (p *turn) write(ctx context.Context, it *Iteration, answer said) error {
	usage, count := p.r.counted(answer)
	text := answer.message.Content.Text()
	output := p.r.continued(text, answer.message)
	changes := append([]session.Change{session.MessageAdded{Message: answer.message}}, usage...)
	return p.r.append(ctx, move{changes: changes, state: func(s *session.TaskState) {
		count(s)
		s.Steps.Counts = counters(it)
		s.Checklist.ReminderArmed = false
		if strings.TrimSpace(text) == "" {
			return
		}
		s.Said.Answer, s.Said.Shown = &output, &output
		if p.step.Kind != "verification" {
			s.Said.Result = &output
		}
	}})
}

// continued is an answer with what came before the cut that it goes on from.
func (r *Run) continued(text string, m session.Message) string {
	s := r.session()
	before := r.state().Said.Shown
	for i := s.Len() - 1; i >= 0 && before != nil; i-- {
		last := s.Message(i)
		if last.Role != session.RoleUser || last.StepID != m.StepID {
			break
		}
		if last.Content.Text() == cutOffText {
			return *before + text
		}
	}
	return text
}

// unanswered decides what follows a request that came to nothing.
func (p *turn) unanswered(ctx, work context.Context, it *Iteration, a asking, err error) (Response, error) {
	var failed *providerError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(context.Cause(work), errLate):
		return nil, p.late(ctx)
	case errors.Is(context.Cause(work), errCancelled):
		if err := p.r.drain(ctx, it); err != nil { // it finds the cancel
			return nil, err
		}
		return Recovered{Messages: it.Messages}, nil // it was for another run
	case tooLong(err):
		return p.makeRoom(ctx, it, a, err)
	case errors.As(err, &failed):
		return nil, Stop(StopProvider, failed.err)
	}
	return nil, err
}

// Handle runs the tools of an answer, or ends the step with it.
func (p *turn) Handle(ctx context.Context, response Response, it *Iteration) (Decision, error) {
	answer, ok := response.(Answer)
	if !ok {
		return Decision{}, fmt.Errorf("answer is a %T", response)
	}
	none := 0
	visible := !answer.Message.Content.Blank()
	switch {
	case len(answer.Message.ToolCalls) > 0:
		if err := p.runTools(ctx, it, answer.Message); err != nil {
			return Decision{}, err
		}
		it.Messages = p.r.session().WindowMessages()
		return Decision{Empty: &none}, nil
	case cutOff(answer.FinishReason) && visible && it.Counters.MaxTokenRecoveries < maxTokenRecoveries:
		it.Counters.MaxTokenRecoveries++
		return Decision{Empty: &none}, p.note(ctx, it, "", cutOffText)
	case !visible:
		empty := it.Counters.Empty + 1
		it.Counters.Empty = empty
		return Decision{Empty: &empty}, p.note(ctx, it, "", emptyText)
	}
	return Decision{Stop: true, Empty: &none}, nil
}

// maxTokenRecoveries is how often a step's answers may be cut off and gone on
// with.
const maxTokenRecoveries = 6

// After has nothing to do: everything is written.
func (p *turn) After(context.Context, *Iteration) error { return nil }

// note says something to the model on the user's side. Hint is its name, where
// it is given once in a step.
func (p *turn) note(ctx context.Context, it *Iteration, hint, text string) error {
	m := session.Message{ID: p.r.x.c.NewID(), Role: session.RoleUser, StepID: it.StepID, Trace: true, Content: session.Text(text)}
	if hint != "" {
		m.Metadata = session.Values{hintKey: raw(hint)}
	}
	err := p.r.append(ctx, move{
		changes: []session.Change{session.MessageAdded{Message: m}},
		state:   func(s *session.TaskState) { s.Steps.Counts = counters(it) },
	})
	it.Messages = p.r.session().WindowMessages()
	return err
}

var (
	errLate      = errors.New("the step's time is over")
	errCancelled = errors.New("the task was cancelled")
)

// underWay is the context of a call to a model or a tool: it ends with the
// step's time, and when somebody cancels the task.
func (p *turn) underWay(ctx context.Context) (context.Context, func()) {
	work, cancel := context.WithCancelCause(ctx)
	var timer *time.Timer
	if p.followUp == nil {
		timer = time.AfterFunc(max(p.left(), 0), func() { cancel(errLate) })
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		_, err := p.r.hold.Arrived(work, func(i store.Item) bool { return i.Kind == store.ItemCancel })
		if err == nil {
			cancel(errCancelled)
		}
	}()
	return work, func() {
		if timer != nil {
			timer.Stop()
		}
		cancel(nil)
		<-listening
	}
}
