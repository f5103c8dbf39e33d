// Package agent is the loop: ask the model, run the tools it asks for, ask
// again, until there is an answer or a reason to stop.
//
// The next step is decided from the session alone, and everything is written
// to the journal before anything relies on it: before the model is asked and
// before a tool runs, all that led there is durable. So a loop that was broken
// off at any instant goes on where it was: an answer that was written is not
// asked for again, a tool result that was written is not produced again. Each
// model answer and each tool run costs one write.
package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Journal makes a session's pending changes durable.
type Journal interface {
	// Append returns the session with its pending changes written. After an
	// error nothing may be relied on and the loop ends.
	Append(ctx context.Context, s session.Session) (session.Session, error)
}

// Inbox is what arrives while the loop runs.
type Inbox interface {
	// Waiting lists what is not taken, in order. Taking is an InboxTaken change.
	Waiting(ctx context.Context) ([]Incoming, error)
}

// Incoming is one thing that arrived: a message to follow up with, or a wish
// to stop. Anything else waits for somebody who understands it.
type Incoming struct {
	ID          string
	Kind        string
	Message     *session.Message // a follow-up's
	Cancel      bool
	Unusable    bool   // to be taken and forgotten
	ExecutionID string // the execution a cancel is for; empty: any
}

// Config is what a loop needs. Journal, Model, Now and NewID are required.
type Config struct {
	Journal Journal
	// Model resolves the model in force, asked anew for every inference.
	Model func(s session.Session) (name string, m llm.Model, err error)
	// Tools are those the agent may use; asked anew for every step.
	Tools func(ctx context.Context, s session.Session) (tool.Set, error)
	// System is the whole system prompt; nil uses the session's.
	System func(s session.Session) string
	Inbox  Inbox // nil: nothing ever arrives
	// Cancel waits beside a running call until the inbox holds a cancel for the
	// execution, and returns nil then; an error says that the context ended
	// first. The call is broken off and the loop takes the cancel from the
	// inbox. Nil: a cancel is seen between calls only.
	Cancel func(ctx context.Context, executionID string) error
	// Recall is what memory has to add to the request: text for the end of the
	// system prompt, and the names of the passages it holds. It is asked once
	// for each message of a user. Nil: nothing.
	Recall func(ctx context.Context, s session.Session, asked session.Message) (text string, ids []string)
	// Fit is asked before each inference whether the request fits the model.
	// It may return a session whose window was moved so that it does; an error
	// ends the execution. Nil: everything fits.
	Fit func(ctx context.Context, s session.Session, m llm.Model, r llm.Request) (session.Session, error)

	// Count is what an answer used, reckoned where its provider does not tell
	// and a budget has to know. Nil: nothing.
	Count func(s session.Session, r llm.Request, answer session.Message) session.Usage

	Now     func() time.Time
	NewID   func() string
	Retries int                             // of one inference, after transient errors
	Backoff func(attempt int) time.Duration // nil: doubling from 250 ms to 8 s
	// MaxPause is how long to wait for a model between two attempts: a server
	// that asks for more is not to be had. 0: 2 minutes.
	MaxPause time.Duration
	Grace    time.Duration // for a tool whose time is over to end; 0: 5 s
	// MaxResult is how many bytes of a tool's result are kept and shown to the
	// model. 0: 256 KiB.
	MaxResult int

	Notify func(Notice)    // what happens, as it happens; may be nil
	Stream func(llm.Delta) // pieces of answers, void after AttemptFailed; may be nil
}

// Notice is news from a running loop. It carries no text of messages or tools.
type Notice struct {
	Kind        NoticeKind
	ExecutionID string
	StepID      string
	StepNumber  int
	Model       string
	Attempt     int  // at this inference, from 0
	Retry       bool // the model is going to be asked again
	CallID      string
	Tool        string
	IsError     bool
	Status      session.ExecutionStatus
	Stop        session.StopReason
}

// NoticeKind is what a notice is about.
type NoticeKind string

// The kinds of notice.
const (
	StepStarted       NoticeKind = "step_started"
	AttemptFailed     NoticeKind = "attempt_failed" // what was streamed of it is void
	ToolStarted       NoticeKind = "tool_started"
	ToolFinished      NoticeKind = "tool_finished"
	StepFinished      NoticeKind = "step_finished"
	ExecutionFinished NoticeKind = "execution_finished"
)

// Run goes on with the session's open execution to its end and returns the
// session. The end itself is a pending change, for the save that follows; a
// crash before that save finds the answer and ends the execution again.
//
// An ExecutionError says that the execution ended as failed, with the cause;
// the session that comes with it is worth saving. An InterruptedError says
// that the context ended: what is written can be continued. Any other error
// is the journal's.
func Run(ctx context.Context, c Config, s session.Session) (session.Session, error) {
	return start(ctx, c, s, (*run).loop)
}

// Settle brings the tool calls of an execution that was broken off to their
// results, so that something new can be said. Errors are those of Run.
func Settle(ctx context.Context, c Config, s session.Session) (session.Session, error) {
	return start(ctx, c, s, func(r *run, ctx context.Context) error {
		if step, open := lastStep(r.s.Execution()); open {
			return r.settle(ctx, step)
		}
		return nil
	})
}

func start(ctx context.Context, c Config, s session.Session, work func(*run, context.Context) error) (session.Session, error) {
	if !s.Running() {
		return s, &session.InvalidError{Field: "execution", Reason: "none is open"}
	}
	r := &run{Config: c, s: s, began: c.Now(), before: s.Execution().ActiveSeconds}
	err := work(r, ctx)
	if err != nil && interrupted(ctx, err) {
		if err := r.flush(context.WithoutCancel(ctx)); err != nil { // it is paid for
			return r.s, err
		}
		err = &session.InterruptedError{ID: r.s.ID(), Seq: r.s.Base(), Err: context.Cause(ctx)}
	}
	return r.s, err
}

// run is one call of Run. s is the newest session; what is pending in it is
// not relied on yet.
type run struct {
	Config
	s      session.Session
	began  time.Time
	before float64 // active seconds before this run
	cause  error   // why the execution failed

	recalled recollection
}

// recollection is what memory had to add for a message.
type recollection struct {
	messageID string
	text      string
	ids       []string
}

func (r *run) loop(ctx context.Context) error {
	for {
		e := r.s.Execution()
		switch step, open := lastStep(e); {
		case !e.Open():
			return r.ended(e)
		case open:
			if err := r.settle(ctx, step); err != nil {
				return err
			}
		default:
			if err := r.advance(ctx, e); err != nil {
				return err
			}
		}
	}
}

// lastStep is the newest step and whether it still waits for its tools.
func lastStep(e *session.Execution) (session.Step, bool) {
	if len(e.Steps) == 0 {
		return session.Step{}, false
	}
	step := e.Steps[len(e.Steps)-1]
	return step, step.CompletedAt == nil
}

// ended reports an execution that is over. A failure written by an earlier
// run has its cause in the execution's errors only.
func (r *run) ended(e *session.Execution) error {
	if e.Status != session.ExecutionFailed {
		return nil
	}
	if r.cause == nil {
		r.cause = errors.New("the model failed")
		if n := len(e.Errors); n > 0 {
			r.cause = errors.New(e.Errors[n-1].Message)
		}
	}
	return &session.ExecutionError{ID: r.s.ID(), ExecutionID: e.ID, Err: r.cause}
}

// advance decides what follows a finished step: the end, or another inference.
// Follow-ups enter only when the model is going to be asked.
func (r *run) advance(ctx context.Context, e *session.Execution) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	followUps, cancelled, err := r.inbox(ctx, e)
	if err != nil {
		return err
	}
	if cancelled {
		return r.finish(session.Signal{Reason: session.StopUserRequested, Message: "cancelled", Source: "inbox"})
	}
	if signal, ok := session.Primary(e.Signals); ok && (signal.Reason != session.StopFinishReason || !r.spokenTo()) {
		return r.finish(signal)
	}
	switch last, _ := lastStep(e); {
	case last.Type == session.StepError:
		return r.finish(session.Signal{Reason: session.StopError, Message: "the model call failed", Source: "agent"})
	case last.Type == session.StepFinal && len(followUps) == 0 && r.answered():
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

// inbox takes the cancels and lists the follow-ups that wait. A cancel for an
// execution that is over is taken and means nothing.
func (r *run) inbox(ctx context.Context, e *session.Execution) (followUps []Incoming, cancelled bool, err error) {
	if r.Inbox == nil {
		return nil, false, nil
	}
	items, err := r.Inbox.Waiting(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, item := range items {
		if item.Message != nil {
			followUps = append(followUps, item)
		}
		if !item.Cancel && !item.Unusable {
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
	if r.s.Seq() == r.s.Base() {
		return nil
	}
	next, err := r.Journal.Append(ctx, r.s)
	if err != nil {
		return err
	}
	r.s = next
	return nil
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

// active is how long the execution has worked, pauses between runs left out.
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
