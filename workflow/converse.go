package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
// wants more turns in circles.
const maxCalls = 100

// converse runs the agent loop of a unit from where it stands to its answer.
// The loop works on a session of its own, made of what the agent remembers and
// what the unit has done so far; what it writes goes to the run's log.
func (st *stage) converse(ctx context.Context, r *run, u unit, e *entry) (input string, err error) {
	made, _ := r.spec.Agents.Get(u.agent)
	name, model, err := st.model(r, made)
	if err != nil {
		return "", err
	}
	s, err := st.stand(r, u, e, made)
	if err != nil {
		return "", err
	}
	input, _ = e.input()
	set, err := st.tools(r, u, made, s)
	if err != nil {
		return "", err
	}
	if s, err = st.talk(ctx, r, u, s, talk{name: name, model: model, tools: set, input: input}); err != nil {
		return "", err
	}
	if stop := s.Execution().Stop; stop != nil && stop.Reason == session.StopSteps {
		return "", &RunError{Kind: KindProvider, Err: fmt.Errorf("no answer after %d calls of the model", maxCalls)}
	}
	return input, nil
}

// talk is who a loop talks to, and about what.
type talk struct {
	name   string
	model  llm.Model
	tools  tool.Set
	input  string
	silent bool // nobody is shown the answer as it comes
}

// talk runs a loop. What it writes is in the log of the run, whatever comes of
// the unit.
func (st *stage) talk(ctx context.Context, r *run, u unit, s session.Session, t talk) (session.Session, error) {
	j := &journal{st: st, r: r, u: u}
	retry := r.spec.Runtime.FailurePolicy.Retry()
	config := agent.Config{
		Journal: j, Now: st.host.Now, NewID: uuid.NewString, Retries: retry.Retries, MaxPause: seconds(retry.WaitMax),
		Backoff: func(attempt int) time.Duration { return wait(retry, attempt+1) },
		Model: func(session.Session) (string, llm.Model, error) {
			return t.name, &watched{Model: t.model, st: st, r: r, retry: retry, input: t.input, estimated: &j.estimated}, nil
		},
		Tools: func(context.Context, session.Session) (tool.Set, error) { return t.tools, nil },
	}
	if !t.silent {
		defer st.stream(u.key, &config)()
	}
	s, err := (agent.Loop{}).Run(ctx, config, s)
	var stored *CommitError
	if !errors.As(err, &stored) {
		if _, kept := j.Append(ctx, s); kept != nil {
			return s, kept
		}
	}
	if err != nil {
		return s, failure(err)
	}
	return s, nil
}

// stream shows the answers of a unit, as they come, to those who follow the run
// and to the host. The caller calls stop at the end of the unit.
func (st *stage) stream(unit string, config *agent.Config) (stop func()) {
	answers := st.hold.Answers(unit)
	var now holdfast.Attempt
	config.Notify = func(n agent.Notice) {
		switch n.Kind {
		case agent.StepStarted:
			now = holdfast.Attempt{Unit: unit, ExecutionID: n.ExecutionID, StepID: n.StepID, Number: n.Attempt}
			answers.Begin(n.ExecutionID, n.StepID, n.Attempt)
		case agent.AttemptFailed:
			answers.Drop()
			dropped := now
			now.Number++
			st.host.OnUpdate(holdfast.Update{Dropped: &dropped})
		}
	}
	config.Stream = func(d llm.Delta) {
		answers.Emit(d)
		st.host.OnUpdate(holdfast.Update{Delta: &holdfast.Delta{Attempt: now, Text: d.Text, Reasoning: d.Reasoning, ToolCall: d.ToolCall}})
	}
	return answers.Close
}

// failure is why a model gave no answer.
func failure(err error) error {
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

// stand is the session a unit's loop works on.
func (st *stage) stand(r *run, u unit, e *entry, made spec.Agent) (session.Session, error) {
	r.mu.Lock()
	def := session.Definition{
		Name: DefinitionName(u.agent), SystemPrompt: r.book.systems[conversation(u.agent, u.lane)], ModelParams: params(r.spec.ModelOf(made)),
	}
	before := r.remembered(u)
	r.mu.Unlock()
	return st.loop(r, u, def, before, e)
}

// loop is a session that begins with what was said before and holds what the
// unit has done so far.
func (st *stage) loop(r *run, u unit, def session.Definition, before []session.Message, e *entry) (session.Session, error) {
	now := st.host.Now()
	s, err := session.New(session.Birth{ID: r.id, AgentID: def.Name}, def, session.Seed{}, now)
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
	course := slices.Clone(e.course)
	r.mu.Unlock()
	for _, record := range course {
		if s, err = s.With(record.At, record.Change); err != nil {
			return s, fmt.Errorf("go on with %s: %w", u.key, err)
		}
	}
	return session.Seal(s, now), nil
}

// remembered is what the agent of a unit has said and heard before.
func (r *run) remembered(u unit) []session.Message {
	var messages []session.Message
	skip, summary := r.summaryOf(u)
	if summary != nil {
		messages = append(messages, *summary)
	}
	for _, key := range u.earlier[skip:] {
		if e := r.book.units[key]; e != nil {
			messages = append(messages, e.messages...)
		}
	}
	return messages
}

// DefinitionName returns the name of a spec or an agent in the form that
// sessions take.
func DefinitionName(agent string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			return c
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		}
		return '-'
	}, agent)
	if name = strings.TrimLeft(name, "-_"); name == "" {
		return "agent"
	}
	return name[:min(len(name), 128)]
}

func params(m spec.Model) *session.ModelParams {
	p := &session.ModelParams{Temperature: m.Temperature, TopP: m.TopP, MaxOutputTokens: m.MaxTokens}
	if m.Provider == "anthropic" && p.MaxOutputTokens == nil {
		p.MaxOutputTokens = ptr(1024)
	}
	return p
}

// model finds the model of an agent.
func (st *stage) model(r *run, made spec.Agent) (string, llm.Model, error) {
	name, model, err := st.host.Models(r.spec.ModelOf(made))
	if err != nil {
		return "", nil, &RunError{Kind: KindProvider, Err: err}
	}
	return name, model, nil
}

// tools are those of a unit.
func (st *stage) tools(r *run, u unit, made spec.Agent, s session.Session) (tool.Set, error) {
	if st.box == nil {
		return tool.Set{}, nil
	}
	names, listed := made.Tools, made.Tools != nil
	if len(u.tools) > 0 {
		names, listed = u.tools, true
	}
	if c := r.spec.Context; c != nil && c.Retrieval != nil {
		names = append(names[:len(names):len(names)], c.Retrieval.JITTools...)
	}
	tools, err := st.box.For(names, listed, func(skill string) bool { return loadedSkill(s, skill) })
	if err != nil {
		return tool.Set{}, err
	}
	return tool.NewSet(tools...)
}

// loadedSkill reports a skill that the conversation has been shown.
func loadedSkill(s session.Session, skill string) bool {
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

// wait is how long to wait after the n-th try.
func wait(p spec.Retry, n int) time.Duration {
	rise := min(max(float64(int64(1)<<min(n-1, 40)), p.WaitMin), p.WaitMax)
	switch p.Backoff {
	case spec.Constant:
		rise = p.WaitMin
	case spec.Jittered:
		rise = p.WaitMin + rand.Float64()*(rise-p.WaitMin)
	}
	return seconds(rise)
}

// seconds is a time of at most thirty years.
func seconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }

// watched is a model whose calls are within the budgets of the run, and whose
// use is known.
type watched struct {
	llm.Model
	st        *stage
	r         *run
	retry     spec.Retry
	input     string
	estimated *atomic.Bool
}

func (w *watched) Infer(ctx context.Context, request llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if over := w.st.overBudget(w.r, false); over != nil {
		return llm.Response{}, &RunError{Kind: KindBudget, Err: over}
	}
	bounded, done := w.st.bound(ctx, w.r)
	defer done()
	response, err := w.Model.Infer(bounded, request, emit)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return response, &RunError{Kind: KindBudget, Err: fmt.Errorf("max_duration_s used up: a call was broken off after %.6g s of work", w.st.seconds())}
	}
	var transient *llm.TransientError
	if errors.As(err, &transient) && transient.After > 0 { // a server may ask for more patience, up to a limit
		pause := max(wait(w.retry, request.Attempt+1), transient.After)
		return response, &llm.TransientError{After: min(pause, seconds(w.retry.WaitMax)), Err: transient.Err}
	}
	if err != nil {
		return response, err
	}
	if response.Usage.Total() == 0 {
		said := session.Message{Content: response.Content}
		response.Usage = session.Usage{Input: int64(words(w.input)), Output: int64(words(said.Content.Text()))}
		w.estimated.Store(true)
	}
	if priced, ok := w.Model.(llm.Priced); ok {
		response.Cost = priced.Cost(response.Usage)
	}
	return response, nil
}

// journal writes what the loop of a unit does into the log of the run.
type journal struct {
	st        *stage
	r         *run
	u         unit
	estimated atomic.Bool
}

// Append makes the loop's changes part of the run's log. How an execution
// ended is not: a unit that failed may be taken up again.
func (j *journal) Append(ctx context.Context, s session.Session) (session.Session, error) {
	var changes []session.Change
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
		}
	}
	if len(changes) > 0 {
		if err := j.st.append(ctx, j.r, j.u.key, changes...); err != nil {
			return s, err
		}
	}
	return session.Flush(s), nil
}
