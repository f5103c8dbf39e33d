// Package agent is the loop that runs every agent: ask the model, run the tools
// it calls, ask again, until there is an answer or a reason to stop. Chats,
// subagents, workflow units and task steps all run on it.
//
// The next step is decided from the session alone, and everything is written to
// the journal before anything relies on it: before the model is asked and
// before a tool runs, all that led there is durable. A loop that is interrupted
// at any instant therefore continues where it was: a written answer is not
// asked for again, a written tool result is not produced again. Each model
// answer and each tool run costs one write.
//
// A tool call may wait: for an approval, for a person's answer, or for a result
// that the caller's own program produces. The loop then writes a pending call
// and ends with the execution in status waiting. Nothing stays in memory.
package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Journal makes a session's pending changes durable.
type Journal interface {
	// Append writes the session's pending changes and returns the session to
	// continue with. After an error nothing may be relied on and the loop ends.
	Append(ctx context.Context, s session.Session) (session.Session, error)
}

// Inbox is what arrives while the loop runs.
type Inbox interface {
	// Waiting lists what is not taken, in order. Taking is an InboxTaken change.
	Waiting(ctx context.Context) ([]Incoming, error)
}

// Incoming is one thing that arrived: a message, a response to a pending call,
// or a request to cancel. Anything else waits for somebody who understands it.
type Incoming struct {
	ID          string
	Kind        string
	Message     *session.Message  // a follow-up's
	Response    *session.Response // to a pending call
	Cancel      bool
	Unusable    bool   // to be taken and forgotten
	ExecutionID string // the execution a cancel is for; empty: any
}

// Gate decides which tool calls run.
type Gate interface {
	// Admit is asked before a call starts, and again after a person approved it:
	// approved then holds the response.
	Admit(ctx context.Context, s session.Session, call Call) (Admission, error)
	// Responded returns further changes to write with a response, such as a rule
	// that the person wants to be kept.
	Responded(ctx context.Context, s session.Session, p session.PendingCall, r session.Response) ([]session.Change, error)
}

// Call is a tool call as a Gate sees it.
type Call struct {
	session.ToolCall
	StepID   string
	Tool     tool.Tool         // nil: there is no tool of that name
	Approved *session.Response // nil: nobody was asked
}

// Admission is a gate's decision about a call. The zero value runs it.
type Admission struct {
	Refusal *tool.Result         // the call does not run; this is its result
	Pending *session.PendingCall // the call waits for a response; the loop fills in what it knows
	Changes []session.Change     // written with the start, the refusal or the pending call
	Reason  any                  // why it is refused, for whoever wraps the gate
	Permit  tool.Permit          // what a call that runs may do beyond its workspace and its host
}

// Steps is what a caller does around the steps of the loop: hints, compaction,
// checklists, budgets of its own. A method that returns an error made by Stop
// ends the execution with that reason, and the session it returns is kept; any
// other error ends the loop and leaves the execution open.
type Steps interface {
	// Before runs before each inference. What it adds to the session is written
	// before the model is asked.
	Before(ctx context.Context, s session.Session) (session.Session, error)
	// Answered runs after an answer without tool calls. Again asks for another
	// step, after what it added to the session.
	Answered(ctx context.Context, s session.Session, answer session.Message, finish string) (next session.Session, again bool, err error)
	// Failed runs when the model gave no answer. Again asks it once more, after
	// what it did about the cause.
	Failed(ctx context.Context, s session.Session, cause error) (next session.Session, again bool, err error)
}

// Config is what a loop needs. Journal, Model, Now and NewID are required.
type Config struct {
	Journal Journal
	// Model resolves the model in force, asked anew for every inference.
	Model func(s session.Session) (name string, m llm.Model, err error)
	// Tools are those the agent may use, asked anew for every step.
	Tools func(ctx context.Context, s session.Session) (tool.Set, error)
	// Request may change what the model is sent. Nil: nothing.
	Request func(s session.Session, r *llm.Request)
	// System is the whole system prompt; nil uses the session's. An error ends
	// the execution.
	System func(ctx context.Context, s session.Session) (string, error)
	Inbox  Inbox // nil: nothing ever arrives
	Gate   Gate  // nil: every call runs
	Steps  Steps // nil: nothing is done around steps
	// Cancel waits beside a running call until the inbox holds a cancel for the
	// execution, and returns nil then; an error says that the context ended
	// first. The call is interrupted and the loop takes the cancel from the
	// inbox. Nil: a cancel is noticed between calls only.
	Cancel func(ctx context.Context, executionID string) error
	// Recall is what memory adds to the request. It is asked once for each message
	// of a user. Nil: nothing.
	Recall func(ctx context.Context, s session.Session, asked session.Message) Recollection
	// Fit is asked before each inference whether the request fits the model. It
	// may return a session whose window was moved so that it does; an error
	// ends the execution. Nil: everything fits.
	Fit func(ctx context.Context, s session.Session, m llm.Model, r llm.Request) (session.Session, error)
	// Count estimates what an answer used where its provider does not say and a
	// budget has to know. Nil: nothing.
	Count func(s session.Session, r llm.Request, answer session.Message) session.Usage

	Now     func() time.Time
	NewID   func() string
	Retries int                             // of one inference, after transient errors
	Backoff func(attempt int) time.Duration // nil: doubling from 250 ms to 8 s
	// MaxPause is how long to wait for a model between two attempts. A server
	// that asks for more counts as unavailable. 0: 2 minutes.
	MaxPause time.Duration
	Grace    time.Duration // for a tool to end after its time is over; 0: 5 s
	// MaxResult is how many bytes of a tool's result are kept and shown to the
	// model. 0: 256 KiB.
	MaxResult int
	// PendingTimeout is how long a pending call waits. 0: for ever.
	PendingTimeout time.Duration

	Notify func(Notice)    // what happens, as it happens; may be nil
	Stream func(llm.Delta) // pieces of answers, void after AttemptFailed; may be nil
}

// Notice is news from a running loop. It carries no text of messages or tools;
// Err may quote what a provider said.
type Notice struct {
	Kind        NoticeKind
	ExecutionID string
	StepID      string
	StepNumber  int
	Model       string
	Attempt     int           // at this inference, from 0
	Retry       bool          // the model is going to be asked again
	Pause       time.Duration // before it is
	Err         error         // of the attempt that failed
	CallID      string
	Tool        string
	IsError     bool
	Usage       session.Usage // of a step that finished
	Cost        session.Cost
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
	CallPending       NoticeKind = "call_pending"
	StepFinished      NoticeKind = "step_finished"
	ExecutionWaiting  NoticeKind = "execution_waiting"
	ExecutionFinished NoticeKind = "execution_finished"
)

// Loop runs executions. It is the default of holdfast.Config.Loop.
type Loop struct{}

// Run continues the session's open execution to its end, or until calls wait
// for a response, and returns the session. The end itself is a pending change,
// for the save that follows; after a crash before that save the loop finds the
// answer and ends the execution again.
//
// An ExecutionError says that the execution ended as failed, with the cause;
// the session that comes with it is worth saving. A StopError says that Steps
// ended the execution. An InterruptedError says that the context ended: what is
// written can be continued. Any other error is the journal's or that of Steps.
func (Loop) Run(ctx context.Context, c Config, s session.Session) (session.Session, error) {
	return start(ctx, c, s, (*run).loop)
}

// Settle brings the tool calls of an interrupted or waiting execution to their
// results, so that something new can be said. Calls that wait for a response
// are cancelled. Errors are those of Run.
func (Loop) Settle(ctx context.Context, c Config, s session.Session) (session.Session, error) {
	return start(ctx, c, s, func(r *run, ctx context.Context) error {
		step, open := lastStep(r.s.Execution())
		if !open {
			return nil
		}
		r.settling = true
		return r.settle(ctx, step)
	})
}

func start(ctx context.Context, c Config, s session.Session, work func(*run, context.Context) error) (session.Session, error) {
	if !s.Running() {
		return s, &session.InvalidError{Field: "execution", Reason: "none is open"}
	}
	r := &run{Config: c, s: s, began: c.Now(), before: s.Execution().ActiveSeconds}
	err := work(r, ctx)
	if errors.Is(err, errWaits) {
		return r.s, nil
	}
	if err != nil && interrupted(ctx, err) {
		if err := r.flushAnyway(ctx); err != nil { // it is paid for
			return r.s, err
		}
		err = &session.InterruptedError{ID: r.s.ID(), Seq: session.Base(r.s), Err: context.Cause(ctx)}
	}
	return r.s, err
}

// Stop makes the error by which Steps ends an execution. Cause may be nil.
func Stop(reason string, cause error) error { return &StopError{Reason: reason, Err: cause} }

// StopError says that Steps ended the execution, which is recorded as stopped.
type StopError struct {
	Reason string
	Err    error // may be nil
}

func (e *StopError) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

func (e *StopError) Unwrap() error { return e.Err }

// UnfinishedError is returned by a tool that could not come to a result but can
// be continued by the same call: a subagent whose store is away, say. The loop
// ends with it and leaves the call started.
type UnfinishedError struct{ Err error }

func (e *UnfinishedError) Error() string { return e.Err.Error() }
func (e *UnfinishedError) Unwrap() error { return e.Err }
