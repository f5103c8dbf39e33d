package holdfast

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// SendMessage says something to the agent and runs it until it has answered, or
// until calls wait for responses: exactly one of Text and Message. On a session
// whose last execution was interrupted or waits, it continues that one: its
// unfinished tool calls are settled first, calls that wait for a response are
// cancelled, then the message is added and the model is asked.
type SendMessage struct {
	Text    string
	Message *session.Message // role user or empty; an id of its own makes it sent once

	// Tools exist for this execution only. The agent may call them; the calls
	// wait until Respond brings their results.
	Tools []session.ClientTool
}

// Name is SendMessage.
func (SendMessage) Name() string               { return "SendMessage" }
func (SendMessage) statuses() []session.Status { return onlyActive }
func (SendMessage) runsAgent()                 {}
func (SendMessage) changesConversation()       {}
func (a SendMessage) sent() SendMessage        { return a }

// message returns the message to send, or why it cannot be sent.
func (a SendMessage) message(newID func() string) (session.Message, error) {
	refuse := func(reason string) (session.Message, error) {
		return session.Message{}, &session.InvalidError{Field: "message", Reason: reason}
	}
	if (a.Text != "") == (a.Message != nil) {
		return refuse("give a text or a message, one of the two")
	}
	m := session.Message{Role: session.RoleUser, Content: session.Text(a.Text)}
	if a.Message != nil {
		m = a.Message.Clone()
	}
	m.Role = cmp.Or(m.Role, session.RoleUser)
	switch {
	case m.Role != session.RoleUser:
		return refuse("its role is " + string(m.Role) + ", not user")
	case len(m.ToolCalls) > 0 || m.ToolResult != nil:
		return refuse("a user calls no tools")
	case m.Content.Blank():
		return refuse("it is blank")
	}
	if m.ID == "" {
		m.ID = newID()
	}
	return m, nil
}

// Execute appends the message and runs one execution to its end.
func (a SendMessage) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	m, err := a.message(env.NewID)
	if err != nil {
		return s, err
	}
	if err := env.x.rt.checkRunnable(ctx, s); err != nil {
		return s, err
	}
	if err := env.x.rt.checkClientTools(ctx, s, a.Tools); err != nil {
		return s, err
	}
	if env.x.repeats { // an earlier call with this key was interrupted after its message was written
		return env.continueExecution(ctx, s, session.ExecutionContinued{})
	}
	if !s.Running() {
		return env.startExecution(ctx, s, &m, a.Tools)
	}
	if s, err = env.x.rt.config.Loop.Settle(ctx, env.agentConfig(), s); err != nil {
		return s, err
	}
	if len(a.Tools) > 0 { // they belong to an execution of their own
		if s, err = stopExecution(s, session.StopInterrupted, "a new message took its place", env.Now()); err != nil {
			return s, err
		}
		return env.startExecution(ctx, s, &m, a.Tools)
	}
	m.ExecutionID = s.Execution().ID
	if s, err = s.With(env.Now(), session.ExecutionContinued{}, session.MessageAdded{Message: m}); err != nil {
		return s, err
	}
	return env.writeAndRun(ctx, s, env.x.keys, true)
}

// ContinueExecution takes up an execution that was interrupted, waits or was set
// aside, or messages that wait in the inbox. With nothing to continue it is a
// NothingToDoError; an execution whose calls still wait for a response is an
// InvalidError.
type ContinueExecution struct {
	recovery bool // nobody asked for it: Recover does it
}

// Name is ContinueExecution.
func (ContinueExecution) Name() string               { return "ContinueExecution" }
func (ContinueExecution) statuses() []session.Status { return onlyOpen }
func (ContinueExecution) runsAgent()                 {}
func (ContinueExecution) changesConversation()       {}

// Execute continues where the session stopped.
func (a ContinueExecution) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	if s, err = env.reactivate(s, a); err != nil {
		return s, err
	}
	if s.Running() || s.HasTail() {
		if err := env.x.checkResponded(ctx, s); err != nil {
			return s, err
		}
		return env.continueExecution(ctx, s, session.ExecutionContinued{Recovery: a.recovery})
	}
	waiting, err := inboxReader{env}.Waiting(ctx)
	if err != nil {
		return s, err
	}
	for _, in := range waiting {
		if in.Message != nil {
			if err := env.x.rt.checkRunnable(ctx, s); err != nil {
				return s, err
			}
			return env.startExecution(ctx, s, nil, nil)
		}
	}
	return s, &session.NothingToDoError{ID: s.ID(), What: "continue"}
}

// RetryExecution runs an execution again that failed: the same one goes on from
// its last step, with what it has spent so far. So the message it was to answer
// is sent once, and no tool that has run runs again. One that was interrupted or
// set aside is continued. With neither it is a NothingToDoError.
type RetryExecution struct{}

// Name is RetryExecution.
func (RetryExecution) Name() string               { return "RetryExecution" }
func (RetryExecution) statuses() []session.Status { return onlyOpen }
func (RetryExecution) runsAgent()                 {}
func (RetryExecution) changesConversation()       {}

// Execute runs the last execution again.
func (a RetryExecution) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	if s, err = env.reactivate(s, a); err != nil {
		return s, err
	}
	e := s.Execution()
	if e == nil || !e.Open() && e.Status != session.ExecutionFailed {
		return s, &session.NothingToDoError{ID: s.ID(), What: "retry"}
	}
	if err := env.x.checkResponded(ctx, s); err != nil {
		return s, err
	}
	return env.continueExecution(ctx, s, session.ExecutionContinued{Retry: true})
}

// reactivate makes a session active again that was set aside. Any other that is
// suspended was suspended on purpose.
func (e *Environment) reactivate(s session.Session, a Action) (session.Session, error) {
	switch {
	case s.Status() == session.Active:
		return s, nil
	case s.SetAside():
		return s.WithStatus(session.Active, "", e.Now())
	}
	return s, &session.StatusError{ID: s.ID(), Status: s.Status(), Action: a.Name()}
}

// AbandonExecution ends an interrupted execution as stopped, without
// asking the model again.
type AbandonExecution struct {
	reason session.StopReason // empty: interrupted
}

// Name is AbandonExecution.
func (AbandonExecution) Name() string               { return "AbandonExecution" }
func (AbandonExecution) statuses() []session.Status { return onlyOpen }
func (AbandonExecution) changesConversation()       {}

// Execute ends the execution.
func (a AbandonExecution) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	if !s.Running() {
		if s.HasTail() {
			return s, nil // it has ended: the save seals it
		}
		return s, &session.NothingToDoError{ID: s.ID(), What: "abandon"}
	}
	return stopExecution(s, cmp.Or(a.reason, session.StopInterrupted), "abandoned", env.Now())
}

// stopExecution ends the open execution without asking the model again.
func stopExecution(s session.Session, reason session.StopReason, why string, now time.Time) (session.Session, error) {
	stop := session.Signal{Reason: reason, Message: why, Source: "action"}
	return s.With(now, session.ExecutionFinished{
		Status: session.ExecutionStopped, Stop: &stop, Signals: []session.Signal{stop}, ActiveSeconds: s.Execution().ActiveSeconds,
	})
}

// startExecution starts a new execution, with a message or with what the inbox
// holds.
func (e *Environment) startExecution(ctx context.Context, s session.Session, m *session.Message, tools []session.ClientTool) (session.Session, error) {
	id := e.NewID()
	budget := s.Definition().Budget
	if budget == nil {
		budget = e.x.rt.config.DefaultBudget
	}
	started := session.ExecutionStarted{ExecutionID: id, Budget: budget, Tools: tools, RootRequestID: llm.Traceparent(ctx)}
	changes := []session.Change{started}
	if m != nil {
		m.ExecutionID = id
		started.RequestID, started.RootRequestID = m.RequestID, cmp.Or(m.RootRequestID, started.RootRequestID)
		changes = []session.Change{session.MessageAdded{Message: *m}, started}
	}
	s, err := s.With(e.Now(), changes...)
	if err != nil {
		return s, err
	}
	return e.writeAndRun(ctx, s, e.x.keys, false)
}

// continueExecution continues an execution; the save seals one that has ended.
// How it is continued is written before anything is tried, so that a process
// that dies of it leaves a trace.
func (e *Environment) continueExecution(ctx context.Context, s session.Session, how session.ExecutionContinued) (session.Session, error) {
	if !s.Running() && !how.Retry {
		return s, nil
	}
	s, err := s.With(e.Now(), how)
	if err != nil {
		return s, err
	}
	if s, err = e.append(ctx, s, nil); err != nil {
		return s, err
	}
	if err := e.x.rt.checkRunnable(ctx, s); err != nil {
		return s, err
	}
	return e.runExecution(ctx, s, true)
}

// writeAndRun makes the beginning durable, together with the keys of the call,
// and runs the loop.
func (e *Environment) writeAndRun(ctx context.Context, s session.Session, keys []store.Key, continued bool) (session.Session, error) {
	s, err := e.append(ctx, s, keys)
	if err != nil {
		return s, err
	}
	return e.runExecution(ctx, s, continued)
}

func (e *Environment) runExecution(ctx context.Context, s session.Session, continued bool) (session.Session, error) {
	e.x.rt.askTitle(s) //nolint:contextcheck // it may outlive the turn, not the runtime
	e.x.rt.bus.emit(ExecutionStarted{About: e.x.rt.about(s.ID()), ExecutionID: s.Execution().ID, Continued: continued})
	return e.Run(ctx, s)
}
