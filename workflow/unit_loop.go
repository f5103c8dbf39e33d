package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// maxCalls is how often a model may be asked within one unit: an agent that
// wants more makes no progress.
const maxCalls = 100

// runLoop runs the agent loop of a unit from where its log ends to its answer.
// The loop works on a session of its own, made of what the agent remembers and
// what the unit has done so far; what it writes goes to the run's log.
func (x *runner) runLoop(ctx context.Context, r *run, u unit, e *entry) (input string, err error) {
	made, _ := r.spec.Agents.Get(u.agent)
	name, model, err := x.model(r, made)
	if err != nil {
		return "", err
	}
	system, _ := r.system(u)
	shape, err := r.outputOf(u, made)
	if err != nil {
		return "", err
	}
	s, err := x.unitSession(r, u, e, r.remembered(u), session.Definition{
		Name: DefinitionName(u.agent), SystemPrompt: system, ModelParams: params(r.spec.ModelOf(made)), ResponseFormat: shape.format(),
	})
	if err != nil {
		return "", err
	}
	input, _ = e.input()
	set, err := x.toolsOf(r, u, made, s)
	if err != nil {
		return "", err
	}
	if s, err = x.converse(ctx, r, u, s, exchange{name: name, model: model, tools: set, input: input, output: shape}); err != nil {
		return "", err
	}
	if stop := s.Execution().Stop; stop != nil && stop.Reason == session.StopSteps {
		return "", &RunError{Kind: KindProvider, Err: fmt.Errorf("no answer after %d calls of the model", maxCalls)}
	}
	return input, nil
}

// model finds the model of an agent.
func (x *runner) model(r *run, made spec.Agent) (string, llm.Model, error) {
	name, model, err := x.host.Models(r.spec.ModelOf(made))
	if err != nil {
		return "", nil, &RunError{Kind: KindProvider, Err: err}
	}
	return name, model, nil
}

func params(m spec.Model) *session.ModelParams {
	p := &session.ModelParams{Temperature: m.Temperature, TopP: m.TopP, MaxOutputTokens: m.MaxTokens}
	if m.Provider == "anthropic" && p.MaxOutputTokens == nil {
		p.MaxOutputTokens = ptr(1024)
	}
	return p
}

// unitSession makes the session of a unit's loop: it begins with what was said
// before and holds what the unit has done so far, calls that wait included.
func (x *runner) unitSession(r *run, u unit, e *entry, before []session.Message, def session.Definition) (session.Session, error) {
	now := x.host.Now()
	s, err := session.New(session.Identity{ID: r.id, AgentID: def.Name}, def, session.Seed{}, now)
	if err != nil {
		return s, err
	}
	for _, m := range before {
		if s, err = s.WithMessage(m, now); err != nil {
			return s, err
		}
	}
	steps := int64(maxCalls)
	if s, err = s.With(now, session.ExecutionStarted{ExecutionID: u.key, Budget: &session.Budget{MaxSteps: &steps}}); err != nil {
		return s, err
	}
	r.mu.Lock()
	changes := slices.Clone(e.changes)
	r.mu.Unlock()
	for _, record := range changes {
		if s, err = s.With(record.At, record.Change); err != nil {
			return s, fmt.Errorf("continue %s: %w", u.key, err)
		}
	}
	return session.Seal(s, now), nil
}

// remembered lists what the agent of a unit has said and heard before.
func (r *run) remembered(u unit) []session.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	var messages []session.Message
	skip, summary := r.summaryOf(u)
	if summary != nil {
		messages = append(messages, *summary)
	}
	for _, key := range u.earlier[skip:] {
		if e := r.index.units[key]; e != nil {
			messages = append(messages, e.messages...)
		}
	}
	return messages
}

// toolsOf returns the tools of a unit.
func (x *runner) toolsOf(r *run, u unit, made spec.Agent, s session.Session) (tool.Set, error) {
	if x.tools == nil {
		return tool.Set{}, nil
	}
	names, listed := made.Tools, made.Tools != nil
	if len(u.tools) > 0 {
		names, listed = u.tools, true
	}
	if c := r.spec.Context; c != nil && c.Retrieval != nil {
		names = append(names[:len(names):len(names)], c.Retrieval.JITTools...)
	}
	tools, err := x.tools.For(names, listed, func(skill string) bool { return hasLoaded(s, skill) })
	if err != nil {
		return tool.Set{}, err
	}
	return tool.NewSet(tools...)
}

// hasLoaded reports a skill that the conversation has been shown.
func hasLoaded(s session.Session, skill string) bool {
	asked := map[string]bool{}
	for _, m := range s.All() {
		for _, call := range m.ToolCalls {
			var args struct {
				ID string `json:"skill_id"`
			}
			if call.Name == "Skill" && json.Unmarshal(call.Arguments, &args) == nil && args.ID == skill {
				asked[call.ID] = true
			}
		}
		if m.ToolResult != nil && asked[m.ToolResult.CallID] && !m.ToolResult.IsError {
			return true
		}
	}
	return false
}

// exchange is what a loop works with.
type exchange struct {
	name   string // of the model
	model  llm.Model
	tools  tool.Set
	input  string
	silent bool         // nobody is shown the answer as it comes
	output *outputShape // the shape of the answer; nil: any
}

// converse runs a loop. What it writes is in the log of the run, whatever
// becomes of the unit. It returns errWaiting when calls wait for responses.
func (x *runner) converse(ctx context.Context, r *run, u unit, s session.Session, with exchange) (session.Session, error) {
	j := &journal{x: x, r: r, u: u}
	ctx, halt := context.WithCancelCause(ctx)
	defer halt(nil)
	retry := r.spec.Runtime.FailurePolicy.Retry()
	config := agent.Config{
		Journal: j, Now: x.host.Now, NewID: uuid.NewString, Retries: retry.Retries, MaxPause: seconds(retry.WaitMax),
		Backoff: func(attempt int) time.Duration { return backoff(retry, attempt+1) },
		Model: func(session.Session) (string, llm.Model, error) {
			return with.name, &meteredModel{Model: with.model, x: x, r: r, retry: retry, input: with.input, estimated: &j.estimated, halt: halt}, nil
		},
		Tools: func(context.Context, session.Session) (tool.Set, error) { return with.tools, nil },
		Inbox: unitInbox{x.hold, u.key}, Gate: x.gate,
	}
	if with.output != nil {
		config.Steps = outputSteps{with.output, x}
	}
	if !with.silent {
		defer x.stream(u.key, &config)()
	}
	s, err := x.hold.Run(ctx, config, s)
	var stored *CommitError
	if !errors.As(err, &stored) {
		if _, kept := j.Append(ctx, s); kept != nil {
			return s, kept
		}
	}
	switch {
	case err != nil:
		return s, modelFailure(err)
	case s.Waiting():
		return s, errWaiting
	}
	return s, nil
}

// stream shows the answers of a unit, as they come, to those who follow the run
// and to the host. The caller calls stop at the end of the unit.
func (x *runner) stream(unit string, config *agent.Config) (stop func()) {
	answers := x.hold.Answers(unit)
	var now holdfast.Attempt
	config.Notify = func(n agent.Notice) {
		switch n.Kind {
		case agent.StepStarted:
			now = holdfast.Attempt{Unit: unit, ExecutionID: n.ExecutionID, StepID: n.StepID, Number: n.Attempt}
			answers.Begin(n.ExecutionID, n.StepID, n.Attempt)
		case agent.AttemptFailed:
			dropped := answers.Drop(n)
			now.Number++
			x.host.OnUpdate(holdfast.Update{Dropped: &dropped})
		}
	}
	config.Stream = func(d llm.Delta) {
		answers.Emit(d)
		x.host.OnUpdate(holdfast.Update{Delta: &holdfast.Delta{Attempt: now, Text: d.Text, Reasoning: d.Reasoning, ToolCall: d.ToolCall}})
	}
	return answers.Close
}

// modelFailure returns why a model gave no answer.
func modelFailure(err error) error {
	var failed *session.ExecutionError
	if !errors.As(err, &failed) {
		return err
	}
	var known *RunError
	if errors.As(failed.Err, &known) {
		return known
	}
	return &RunError{Kind: KindProvider, Err: failed.Err}
}

// backoff returns how long to wait after the n-th try.
func backoff(p spec.Retry, n int) time.Duration {
	rise := min(max(float64(int64(1)<<min(n-1, 40)), p.WaitMin), p.WaitMax)
	switch p.Backoff {
	case spec.Constant:
		rise = p.WaitMin
	case spec.Jittered:
		rise = p.WaitMin + rand.Float64()*(rise-p.WaitMin)
	}
	return seconds(rise)
}

// seconds makes a duration of at most thirty years.
func seconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }

// meteredModel keeps the calls of a model within the budgets of the run, and
// counts what they use.
type meteredModel struct {
	llm.Model
	x         *runner
	r         *run
	retry     spec.Retry
	input     string
	estimated *atomic.Bool
	halt      context.CancelCauseFunc // interrupts the unit
}

func (m *meteredModel) Infer(ctx context.Context, request llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if cause := m.x.stopCause(ctx); cause != nil {
		m.halt(cause)
		return llm.Response{}, ctx.Err()
	}
	if over := m.x.overBudget(m.r, false); over != nil {
		return llm.Response{}, &RunError{Kind: KindBudget, Err: over}
	}
	bounded, done := m.x.bound(ctx, m.r)
	defer done()
	response, err := m.Model.Infer(bounded, request, emit)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return response, &RunError{Kind: KindBudget, Err: fmt.Errorf("max_duration_s used up: a call was interrupted after %.6g s of work", m.x.seconds())}
	}
	var transient *llm.TransientError
	if errors.As(err, &transient) && transient.After > 0 { // a server may ask for more patience, up to a limit
		pause := max(backoff(m.retry, request.Attempt+1), transient.After)
		return response, &llm.TransientError{After: min(pause, seconds(m.retry.WaitMax)), Err: transient.Err}
	}
	if err != nil {
		return response, err
	}
	if response.Usage.Total() == 0 {
		said := session.Message{Content: response.Content}
		response.Usage = session.Usage{Input: int64(countWords(m.input)), Output: int64(countWords(said.Content.Text()))}
		m.estimated.Store(true)
	}
	if priced, ok := m.Model.(llm.Priced); ok {
		response.Cost = priced.Cost(response.Usage)
	}
	return response, nil
}

// journal writes what the loop of a unit does into the log of the run.
type journal struct {
	x         *runner
	r         *run
	u         unit
	estimated atomic.Bool
}

// Append writes the loop's changes to the run's log. How an execution ended is
// not written: a unit that failed may be continued.
func (j *journal) Append(ctx context.Context, s session.Session) (session.Session, error) {
	var changes []session.Change
	var pending []session.PendingCall
	for _, record := range session.Unsaved(s) {
		switch c := record.Change.(type) {
		case session.MessageAdded:
			m := c.Message
			m.Unit, m.Lane = j.u.key, j.u.lane
			changes = append(changes, session.MessageAdded{Message: m})
		case session.InferenceAnswered:
			changes = append(changes, session.UnitAdvanced{Unit: j.u.key, Agent: j.u.agent, Estimated: j.estimated.Swap(false), Change: c})
		case session.ToolStarted, session.ToolFinished, session.StepFinished:
			changes = append(changes, session.UnitAdvanced{Unit: j.u.key, Agent: j.u.agent, Change: c})
		case session.CallPending:
			c.Call.Unit, c.Seconds = j.u.key, j.x.seconds()
			changes, pending = append(changes, c), append(pending, c.Call)
		case session.CallResponded:
			c.Unit = j.u.key
			changes = append(changes, c)
		case session.InboxTaken, session.PermissionNoted, session.TaskEvent: // the run's own
			changes = append(changes, c)
		}
	}
	var err error
	switch {
	case len(pending) > 0: // listings show what waits while other units work
		err = j.x.commit(ctx, j.r, j.u.key, "workflow.wait", StatusRunning, "", changes...)
	case len(changes) > 0:
		err = j.x.append(ctx, j.r, j.u.key, changes...)
	}
	if err != nil {
		return s, err
	}
	for _, p := range pending {
		j.x.emit(j.r, HITLPause, QuestionData{Unit: p.Unit, Prompt: p.Prompt, Context: p.Context, PendingID: p.ID, Kind: p.Kind})
	}
	return session.Flush(s), nil
}
