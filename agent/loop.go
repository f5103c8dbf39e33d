package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// errWaits ends the loop because calls wait for responses.
var errWaits = errors.New("calls wait for responses")

// run is one call of Run. s is the newest session; what is pending in it is not
// relied on yet.
type run struct {
	Config
	s        session.Session
	began    time.Time
	before   float64 // active seconds before this run
	cause    error   // why the execution failed
	settling bool    // pending calls are cancelled, not waited for

	recalled Recollection // for the message askedID
	askedID  string
	renamed  map[string]string // ids of calls in the answer being given, as the provider and as the session names them
}

// Recollection is what memory adds to a request.
type Recollection struct {
	Text    string                 // for the end of the system prompt
	IDs     []string               // names of the passages that it holds
	Reasons []session.RecallReason // why, in the order of IDs
}

func (r *run) loop(ctx context.Context) error {
	for {
		e := r.s.Execution()
		switch step, open := lastStep(e); {
		case !e.Open():
			return r.failure(e)
		case open:
			if err := r.settle(ctx, step); err != nil {
				return r.stopped(err)
			}
		default:
			if err := r.advance(ctx, e); err != nil {
				return r.stopped(err)
			}
		}
	}
}

// lastStep returns the newest step and whether it still waits for its tools.
func lastStep(e *session.Execution) (session.Step, bool) {
	if len(e.Steps) == 0 {
		return session.Step{}, false
	}
	step := e.Steps[len(e.Steps)-1]
	return step, step.CompletedAt == nil
}

// failure reports how an ended execution failed. A failure written by an
// earlier run has its cause in the execution's errors only.
func (r *run) failure(e *session.Execution) error {
	if e.Status != session.ExecutionFailed {
		return nil
	}
	if r.cause == nil {
		r.cause = e.Cause()
	}
	return &session.ExecutionError{ID: r.s.ID(), ExecutionID: e.ID, Err: r.cause}
}

// stopped records the end of an execution that Steps has stopped.
func (r *run) stopped(err error) error {
	var stop *StopError
	if !errors.As(err, &stop) {
		return err
	}
	signal := session.Signal{Reason: session.StopRequested, Message: stop.Reason, Source: "steps"}
	if recordErr := r.finish(signal); recordErr != nil {
		return recordErr
	}
	return stop
}

// advance decides what follows a finished step: the end, or another inference.
// Follow-ups enter only when the model is going to be asked.
func (r *run) advance(ctx context.Context, e *session.Execution) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	followUps, cancelled, err := r.readInbox(ctx, e)
	if err != nil {
		return err
	}
	if cancelled {
		return r.finish(session.Signal{Reason: session.StopUserRequested, Message: "cancelled", Source: "inbox"})
	}
	if signal, ok := session.Primary(lasting(e.Signals)); ok {
		return r.finish(signal)
	}
	last, _ := lastStep(e)
	cut := finishSignal(last.FinishReason)
	switch {
	case len(cut) > 0 && !r.spokenTo(), last.Type == session.StepFinal && len(followUps) == 0 && r.answered():
		again, err := r.judge(ctx, last)
		if err != nil || again {
			return err
		}
		if len(cut) > 0 {
			return r.finish(cut[0])
		}
		return r.finish(session.Signal{Reason: session.StopCompleted, Source: "agent"})
	}
	if signal, over := r.overBudget(e, true); over {
		return r.finish(signal)
	}
	for _, item := range followUps {
		m := *item.Message
		m.ExecutionID = e.ID
		if err := r.record(session.InboxTaken{ItemID: item.ID, ItemKind: item.Kind}, session.MessageAdded{Message: m}); err != nil {
			return err
		}
	}
	return r.infer(ctx, e)
}

// lasting keeps the signals that end an execution whatever is said afterwards.
func lasting(signals []session.Signal) []session.Signal {
	return slices.DeleteFunc(slices.Clone(signals), func(s session.Signal) bool { return s.Reason == session.StopFinishReason })
}

// judge asks Steps whether the last answer is the end.
func (r *run) judge(ctx context.Context, last session.Step) (again bool, err error) {
	n := r.s.Len()
	if r.Steps == nil || n == 0 || last.ID == "" {
		return false, nil
	}
	next, again, err := r.Steps.Answered(ctx, r.s, r.s.Message(n-1), last.FinishReason)
	return again, r.keep(next, err)
}

// keep continues with the session that Steps returned, also where it stops the
// execution.
func (r *run) keep(next session.Session, err error) error {
	var stop *StopError
	if err == nil || errors.As(err, &stop) {
		r.s = next
	}
	return err
}

// spokenTo reports that somebody spoke after the last answer: that the answer
// was cut off is no reason to stop any more.
func (r *run) spokenTo() bool {
	n := r.s.Len()
	return n > 0 && r.s.Message(n-1).Role == session.RoleUser
}

// answered reports that nothing was said after the last answer.
func (r *run) answered() bool {
	n := r.s.Len()
	return n == 0 || r.s.Message(n-1).Role == session.RoleAssistant
}

// incoming lists what has arrived and was not taken by a change that is still
// to be written.
func (r *run) incoming(ctx context.Context) ([]Incoming, error) {
	if r.Inbox == nil {
		return nil, nil
	}
	items, err := r.Inbox.Waiting(ctx)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	taken := map[string]bool{}
	for _, record := range session.Unsaved(r.s) {
		if t, ok := record.Change.(session.InboxTaken); ok {
			taken[t.ItemID] = true
		}
	}
	return slices.DeleteFunc(items, func(i Incoming) bool { return taken[i.ID] }), nil
}

// readInbox takes the cancels and lists the follow-ups that wait. A cancel for
// an execution that is over is taken and ignored.
func (r *run) readInbox(ctx context.Context, e *session.Execution) (followUps []Incoming, cancelled bool, err error) {
	items, err := r.incoming(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, item := range items {
		if item.Message != nil {
			followUps = append(followUps, item)
		}
		// No call waits here, so a response comes too late for its call.
		if !item.Cancel && !item.Unusable && item.Response == nil {
			continue
		}
		if err := r.record(session.InboxTaken{ItemID: item.ID, ItemKind: item.Kind}); err != nil {
			return nil, false, err
		}
		cancelled = cancelled || item.Cancel && (item.ExecutionID == "" || item.ExecutionID == e.ID)
	}
	return followUps, cancelled, nil
}

// record adds changes that the next flush or save makes durable.
func (r *run) record(changes ...session.Change) error {
	if len(changes) == 0 {
		return nil
	}
	next, err := r.s.With(r.Now(), changes...)
	if err != nil {
		return fmt.Errorf("record %s: %w", changes[0].Kind(), err)
	}
	r.s = next
	return nil
}

// flush makes everything recorded durable. It stands before every effect on
// the world outside.
func (r *run) flush(ctx context.Context) error {
	if r.s.Seq() == session.Base(r.s) {
		return nil
	}
	next, err := r.Journal.Append(ctx, r.s)
	if err != nil {
		return err
	}
	r.s = next
	return nil
}

// flushAnyway is flush for what must be kept although the execution is ending.
func (r *run) flushAnyway(ctx context.Context) error {
	finishing, done := store.Finish(ctx)
	defer done()
	return r.flush(finishing)
}

// finish records the end of the execution.
func (r *run) finish(stop session.Signal) error {
	end := session.ExecutionFinished{Status: stop.Reason.Status(), Stop: &stop, ActiveSeconds: r.active()}
	if _, known := session.Primary(r.s.Execution().Signals); !known {
		end.Signals = []session.Signal{stop}
	}
	if err := r.record(end); err != nil {
		return err
	}
	r.notify(Notice{Kind: ExecutionFinished, Status: end.Status, Stop: stop.Reason})
	return nil
}

// active returns how long the execution has worked, without the pauses between
// runs.
func (r *run) active() float64 { return r.before + r.Now().Sub(r.began).Seconds() }

func (r *run) notify(n Notice) {
	if r.Notify != nil {
		n.ExecutionID = r.s.Execution().ID
		r.Notify(n)
	}
}

// interrupted reports an error that is the end of the context and not a lost
// lease.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && !errors.Is(err, session.ErrFenced) && !errors.Is(context.Cause(ctx), session.ErrFenced) &&
		(errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
