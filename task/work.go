package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// The modes of work.
const (
	modeStep     = "step"
	modeFollowUp = "follow_up"
)

// work is a step of the plan, or the answer to a message, as one execution of
// the agent loop. It gives the loop the task's tools, limits and permissions,
// and adds to each write what follows from it for the task.
type work struct {
	r        *Run
	mode     string
	id       string // whose counts are counted
	step     session.PlanStep
	followUp *session.FollowUp
	opening  []session.Message // said when the counts begin
	caps     Caps

	journal agent.Journal
	booked  int64            // the last change that was looked at
	events  []session.Change // about failed attempts, for the next write
	answer  *session.InferenceAnswered
	results map[string]session.ToolResult
	started map[string]bool
	silent  map[string]bool // calls whose refusal has an event of its own, or needs none
	again   map[string]bool // calls answered from memory
	replies map[string]reply

	asked llm.Request // the last one

	mu  sync.Mutex // guards ran
	ran map[string]ran
}

// stopRaised ends an execution that used up a budget which has been raised since
// it began. Another one goes on with the step.
const stopRaised StopReason = "budget_raised"

// reply is how a pending call was settled.
type reply struct {
	session.Response
	kept bool // an expired call had a default answer
}

// ran is what is known of a call only where it ran.
type ran struct {
	existed bool // the file it is about, before it ran
	err     error
}

func (r *Run) newWork(mode, id string, caps Caps) *work {
	return &work{
		r: r, mode: mode, id: id, caps: caps, results: map[string]session.ToolResult{}, started: map[string]bool{},
		silent: map[string]bool{}, again: map[string]bool{}, replies: map[string]reply{}, ran: map[string]ran{},
	}
}

// run runs the loop to its end, or until calls wait for responses, and makes
// one version of it. End adds what the end means for the task. The cause says
// more about the outcome; the error means that the work was interrupted and
// that what is durable stays open.
func (w *work) run(ctx context.Context, end func(context.Context, Outcome, error) error) (out Outcome, cause, err error) {
	if ctx.Err() != nil {
		return out, nil, context.Cause(ctx)
	}
	if terminal(w.r.row().Status) {
		return w.outcome(StopEndedElsewhere), nil, nil
	}
	err = w.r.act(ctx, "task."+w.mode, func(ctx context.Context, env *holdfast.Environment) error {
		reason, failed, err := w.execute(ctx, env)
		for err == nil && reason == stopRaised {
			reason, failed, err = w.execute(ctx, env)
		}
		if err != nil {
			return err
		}
		if reason == StopSoftDeadline {
			if failed, err = w.late(ctx); err != nil {
				return err
			}
		}
		out, cause = w.outcome(reason), failed
		if end == nil {
			return nil
		}
		return end(ctx, out, cause)
	})
	return out, cause, err
}

// execute runs one execution and returns why it ended, and the cause.
func (w *work) execute(ctx context.Context, env *holdfast.Environment) (StopReason, error, error) {
	if err := w.begin(ctx, env); err != nil {
		return "", nil, err
	}
	s, err := env.Run(ctx, w.r.session(), w.configure)
	w.r.setLive(&s)
	reason, cause, err := w.reason(err)
	if err != nil {
		return "", nil, err
	}
	if err := w.follow(ctx); err != nil || reason != stopRaised {
		return reason, cause, err
	}
	err = w.r.checkBudgets(ctx)
	var over *session.BudgetError
	if errors.As(err, &over) {
		return StopReason(over.Kind), over, nil
	}
	return stopRaised, nil, err
}

// begin opens an execution, or continues the one that was interrupted or
// waited. What was left open by another step is closed first.
func (w *work) begin(ctx context.Context, env *holdfast.Environment) error {
	r := w.r
	s, state := r.session(), r.state()
	counts := state.Steps.Counts
	resumes := counts != nil && counts.StepID == w.id
	var m edit
	if s.Running() && resumes {
		m.changes = append(m.changes, session.ExecutionContinued{})
		for _, step := range s.Execution().Steps {
			for _, e := range step.ToolExecutions {
				w.started[e.CallID] = e.CompletedAt == nil
			}
		}
	} else {
		m.changes = append(r.closing(s), session.ExecutionStarted{ExecutionID: r.x.c.NewID(), Budget: w.budget()})
	}
	if !resumes {
		m = m.and(w.open(m.changes))
	}
	if err := r.append(ctx, m); err != nil {
		return err
	}
	s, err := env.Append(ctx, r.session())
	w.booked = s.Seq()
	r.setLive(&s)
	return err
}

// budget bounds an execution, and with it the subagents, by what is left of the
// task's tokens and money, and a step by its soft deadline.
func (w *work) budget() *session.Budget {
	l, used := w.r.limits(), w.r.state().Usage
	var b session.Budget
	if w.mode == modeStep {
		b.MaxSeconds = new(l.softDeadline().Seconds())
	}
	if l.tokens != nil {
		b.MaxTokens = new(max(*l.tokens-tokensUsed(used), 0))
	}
	if l.cost != nil {
		b.MaxCost = new(max(session.Dollars(*l.cost)-session.Dollars(costUsed(used)), 0))
	}
	return &b
}

// open returns what is said when the counts begin.
func (w *work) open(begun []session.Change) edit {
	execution := ""
	if e, ok := begun[len(begun)-1].(session.ExecutionStarted); ok {
		execution = e.ExecutionID
	}
	var m edit
	if w.followUp != nil {
		m.changes = w.r.delivery(*w.followUp, "")
	}
	for _, said := range w.opening {
		m.changes = append(m.changes, session.MessageAdded{Message: w.r.fresh(said)})
	}
	for i, c := range m.changes {
		if added, ok := c.(session.MessageAdded); ok {
			added.Message.ExecutionID = execution
			m.changes[i] = added
		}
	}
	m.state = func(s *session.TaskState) {
		s.Steps.Counts = &session.StepCounts{StepID: w.id}
		if w.mode == modeFollowUp {
			s.Loop.FollowUpRetries = 0
		}
		for _, c := range m.changes {
			if added, ok := c.(session.MessageAdded); ok && added.Message.Role == session.RoleUser {
				s.Said.User = added.Message.Content.Text()
			}
		}
	}
	return m
}

// fresh returns a message with an id, in the running execution.
func (r *Run) fresh(m session.Message) session.Message {
	if m.ID == "" {
		m.ID = r.x.c.NewID()
	}
	if s := r.session(); s.Running() {
		m.ExecutionID = s.Execution().ID
	}
	return m
}

const (
	providerRetries = 5
	firstPause      = time.Second
	longestPause    = 30 * time.Second
	patience        = 5 * time.Minute // for a server that asks for time
)

func backoff(attempt int) time.Duration {
	pause := min(firstPause<<attempt, longestPause)
	return time.Duration(float64(pause) * (0.75 + rand.Float64()/2))
}

// configure makes the loop work for the task.
func (w *work) configure(c *agent.Config) {
	r, inner := w.r, *c
	w.journal = inner.Journal
	c.Journal, c.Steps, c.Gate, c.Request = w, w, gate{w, r.x.gate}, w.request
	c.Now, c.NewID = r.x.c.Clock, r.x.c.NewID
	c.Retries, c.Backoff, c.MaxPause = providerRetries, backoff, patience
	c.Inbox = inbox{inner.Inbox}
	if r.x.c.PendingTimeout > 0 {
		c.PendingTimeout = r.x.c.PendingTimeout
	}
	c.Model = func(s session.Session) (string, llm.Model, error) {
		if o := overriding(s); o.Model != "" {
			return r.x.rt.Model(o.Model)
		}
		return inner.Model(s)
	}
	about := DescribeWorkspace(workspaceOf(r.session()))
	c.System = func(ctx context.Context, s session.Session) (string, error) {
		system := overriding(s).SystemPrompt
		if system == "" {
			var err error
			if system, err = inner.System(ctx, s); err != nil {
				return "", err
			}
		}
		return strings.TrimSpace(system + "\n\n" + modeNote(rowIn(s).ExecutionMode) + about), nil
	}
	c.Tools = func(ctx context.Context, s session.Session) (tool.Set, error) {
		w.r.box.mu.Lock()
		w.r.box.more = func(ctx context.Context) (tool.Set, error) { return inner.Tools(ctx, s) }
		w.r.box.mu.Unlock()
		all, err := r.catalogue(ctx)
		if err != nil {
			return tool.Set{}, agent.Stop(string(StopError), err)
		}
		watched := make([]tool.Tool, len(all))
		for i, t := range all {
			watched[i] = observed{t, w}
		}
		return tool.NewSet(watched...)
	}
	c.Fit = func(ctx context.Context, s session.Session, m llm.Model, q llm.Request) (session.Session, error) {
		next, err := w.hook(ctx, s, func() error { return r.makeRoom(ctx, m, q) })
		if err != nil || next.Seq() != s.Seq() || inner.Fit == nil {
			return next, err
		}
		return inner.Fit(ctx, s, m, q)
	}
	c.Notify = func(n agent.Notice) {
		if n.Kind == agent.AttemptFailed {
			w.events = append(w.events, attemptEvent(n))
		}
		if inner.Notify != nil {
			inner.Notify(n)
		}
	}
}

// attemptEvent tells of a request that failed.
func attemptEvent(n agent.Notice) session.Change {
	if n.Retry {
		return event("llm_retry", llmRetry{Attempt: n.Attempt + 1, DelayMS: n.Pause.Milliseconds(), Error: n.Err.Error()})
	}
	return event("llm_error", llmError{Attempt: n.Attempt + 1, Error: n.Err.Error()})
}

// inbox hides the follow-ups: the task delivers them itself.
type inbox struct{ inner agent.Inbox }

// Waiting lists the rest.
func (i inbox) Waiting(ctx context.Context) ([]agent.Incoming, error) {
	items, err := i.inner.Waiting(ctx)
	return slices.DeleteFunc(items, func(item agent.Incoming) bool { return item.Kind == string(store.ItemFollowUp) }), err
}

// observed notes what only the caller of a tool can see.
type observed struct {
	tool.Tool
	w *work
}

// Call calls the tool.
func (t observed) Call(ctx context.Context, c tool.Call) (result tool.Result, err error) {
	call := session.ToolCall{ID: c.ID, Name: t.Spec().Name, Arguments: c.Arguments}
	seen := ran{existed: t.w.r.exists(call, t.Spec()), err: session.ErrPanic}
	returned := false
	defer func() {
		if returned {
			seen.err = err
		}
		t.w.mu.Lock()
		defer t.w.mu.Unlock()
		t.w.ran[c.ID] = seen
	}()
	result, err = t.Tool.Call(ctx, c)
	returned = true
	return result, err
}

// reason returns why the loop ended, and the cause. An error says that it was
// interrupted: nothing may be concluded.
func (w *work) reason(err error) (StopReason, error, error) {
	s := w.r.session()
	var stop *agent.StopError
	var failed *session.ExecutionError
	switch {
	case errors.As(err, &stop):
		return StopReason(stop.Reason), stop.Err, nil
	case errors.As(err, &failed):
		return StopProvider, failed.Err, nil
	case err != nil:
		return "", nil, err
	case s.Waiting() && asksOnly(s):
		return StopUserInput, nil, nil
	case s.Waiting():
		return StopApproval, nil, nil
	}
	done := StopCompleted
	if stateOf(s).Loop.WrapUp { // the answer says where the step stands, not that it is done
		done = StopWrapUp
	}
	e := s.Execution()
	if e.Stop == nil {
		return done, nil, nil
	}
	switch e.Stop.Reason {
	case session.StopCompleted, session.StopFinishReason:
		return done, nil, nil
	case session.StopUserRequested:
		return StopCancelled, nil, nil
	case session.StopTime, session.StopDeadline:
		return StopSoftDeadline, nil, nil
	case session.StopTokens, session.StopCost:
		return stopRaised, nil, nil // unless the task's own budgets are used up
	}
	return StopPolicy, errors.New(e.Stop.Message), nil
}

// late writes that the step's time is over.
func (w *work) late(ctx context.Context) (error, error) {
	l := w.r.limits()
	cause := lateError{l.softDeadline()}
	step, _ := w.r.state().Plan.Step(w.step.ID)
	if step.ID == "" {
		step = w.step
	}
	return cause, w.r.append(ctx, edit{
		changes: []session.Change{event("step_timeout", stepEvent{Step: step, Error: cause.Error(), Timeout: l.stepTimeout.Milliseconds()})},
		state:   func(s *session.TaskState) { s.Loop.SoftDeadline = true },
	})
}

// lateError is a step that took too long.
type lateError struct{ after time.Duration }

func (e lateError) Error() string { return fmt.Sprintf(softDeadlineText, int(e.after.Seconds())) }

func (w *work) outcome(reason StopReason) Outcome {
	c := w.counts()
	out := Outcome{Messages: w.r.session().WindowMessages(), Iterations: c.Iterations, LLMCalls: c.LLMCalls, EmptyResponses: c.Empty, StopReason: reason}
	switch reason {
	case StopIterations, StopLLMCalls, StopRecovered:
		out.LoopBudgetStop = reason
	}
	return out
}

// closing ends what is open without asking the model: calls that wait are
// cancelled, calls without a result get one that says so.
func (r *Run) closing(s session.Session) []session.Change {
	var changes []session.Change
	if s.Running() {
		for _, p := range s.PendingCalls() {
			if p.Waiting() {
				changes = append(changes, session.CallResponded{Response: session.Response{PendingID: p.ID, Action: session.RespondCancel}})
			}
		}
	}
	answer, open := lastUnanswered(s)
	begun := stateOf(s).Tools.Started
	var current *session.Step
	if s.Running() {
		if steps := s.Execution().Steps; len(steps) > 0 && steps[len(steps)-1].CompletedAt == nil {
			current = &steps[len(steps)-1]
			for _, e := range current.ToolExecutions {
				begun = begun.With(e.CallID)
			}
		}
	}
	for _, call := range open {
		text := notRunText
		if begun.Has(call.ID) {
			text = session.UnknownOutcome
		}
		changes = append(changes, session.MessageAdded{Message: session.Message{
			ID: r.x.c.NewID(), Role: session.RoleTool, ExecutionID: answer.ExecutionID, StepID: answer.StepID, Trace: true,
			ToolResult: &session.ToolResult{CallID: call.ID, ToolName: call.Name, Content: text, IsError: true, Synthetic: true},
		}})
		if current != nil && answer.StepID == current.ID {
			changes = append(changes, session.ToolFinished{
				StepID: current.ID, CallID: call.ID, ToolName: call.Name, IsError: true, Synthetic: true, ActiveSeconds: s.Execution().ActiveSeconds,
			})
		}
	}
	if !s.Running() {
		return changes
	}
	seconds := s.Execution().ActiveSeconds
	if current != nil {
		changes = append(changes, session.StepFinished{StepID: current.ID, Type: session.StepTools, ActiveSeconds: seconds})
	}
	stop := session.Signal{Reason: session.StopInterrupted, Message: "the task moved on", Source: "task"}
	return append(changes, session.ExecutionFinished{
		Status: session.ExecutionStopped, Stop: &stop, Signals: []session.Signal{stop}, ActiveSeconds: seconds,
	})
}

// lastUnanswered returns the newest answer with calls, and those of them that
// have no result.
func lastUnanswered(s session.Session) (answer session.Message, open []session.ToolCall) {
	answered := map[string]bool{}
	for i := s.Len() - 1; i >= 0; i-- {
		m := s.Message(i)
		if m.ToolResult != nil {
			answered[m.ToolResult.CallID] = true
		}
		if len(m.ToolCalls) == 0 {
			continue
		}
		for _, call := range m.ToolCalls {
			if !answered[call.ID] {
				open = append(open, call)
			}
		}
		return m, open
	}
	return session.Message{}, nil
}
