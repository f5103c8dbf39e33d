package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// toolbox keeps what the registry offers in the workspace, so that it is asked
// once. It is dropped when the workspace changes.
type toolbox struct {
	mu    sync.Mutex
	known []Tool   // nil: to be asked for
	from  Registry // nil: the executor's
}

// dropTools forgets what the registry offered.
func (r *Run) dropTools() {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	r.box.known = nil
}

// catalogue is every tool there is in the workspace, those of the task itself
// at the end. A tool of the registry never takes the place of one of those.
func (r *Run) catalogue(ctx context.Context) ([]Tool, error) {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	if r.box.known == nil {
		known := []Tool{}
		from := r.box.from
		if from == nil {
			from = r.x.c.Registry
		}
		if from != nil {
			tools, err := from.Tools(ctx, r.workspace())
			if err != nil {
				return nil, fmt.Errorf("find the tools of workspace %q: %w", r.workspace().ID, err)
			}
			known = slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return ownTool(t.Spec().Name) })
		}
		r.box.known = slices.Concat(known, r.ownTools())
	}
	return r.box.known, nil
}

// find is a tool by its name.
func (r *Run) find(ctx context.Context, name string) (Tool, bool, error) {
	tools, err := r.catalogue(ctx)
	if err != nil {
		return Tool{}, false, err
	}
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Spec().Name == name })
	if i < 0 {
		return Tool{}, false, nil
	}
	return tools[i], true, nil
}

// offered are the tools the model is shown: not those that are off for a
// while, nor deferred ones that no search has found, nor what the definition
// leaves out.
func (r *Run) offered(ctx context.Context) ([]Tool, error) {
	tools, err := r.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	state, row, def := r.state(), r.row(), r.session().Definition()
	deferred := slices.ContainsFunc(tools, func(t Tool) bool { return t.Deferred })
	var shown []Tool
	for _, t := range tools {
		name := t.Spec().Name
		switch {
		case checklistTool(name):
			if !checklistMode(row.ExecutionMode) {
				continue
			}
		case name == searchTool:
			if !deferred {
				continue
			}
		case name == inputTool:
			if !inputMode(row.ExecutionMode) {
				continue
			}
		case t.Deferred && !state.Tools.Found.Has(name),
			def.Tools != nil && !slices.Contains(def.Tools, name), slices.Contains(def.ToolsDeny, name):
			continue
		}
		if _, off := disabled(state.Tools, t, millis(r.x.c.Clock())); off {
			continue
		}
		shown = append(shown, t)
	}
	return shown, nil
}

// ownTools are those that work on the task itself.
func (r *Run) ownTools() []Tool { return append(ChecklistTools(r), r.searchTool(), newInputTool()) }

func ownTool(name string) bool { return checklistTool(name) || name == searchTool || name == inputTool }

// maxTogether bounds how many calls of one answer run at the same time.
const maxTogether = 8

// runTools brings every call of an answer to its result. Calls whose result is
// written are left alone.
func (p *turn) runTools(ctx context.Context, it *Iteration, answer session.Message) error {
	work, done := p.underWay(ctx)
	defer done()
	for {
		waiting := p.r.unanswered(answer)
		if len(waiting) == 0 {
			return nil
		}
		n, err := p.together(ctx, waiting)
		if err != nil {
			return err
		}
		if err := p.carryOut(ctx, work, it, waiting[:n]); err != nil {
			return err
		}
	}
}

// together is how many of the first calls may run at the same time.
func (p *turn) together(ctx context.Context, calls []session.ToolCall) (int, error) {
	n := 0
	for n < len(calls) && n < maxTogether {
		t, known, err := p.r.find(ctx, calls[n].Name)
		if err != nil {
			return 0, err
		}
		if known && !t.Spec().Concurrent() {
			break
		}
		n++
	}
	return max(n, 1), nil
}

// running is a call that is allowed to run.
type running struct {
	call    session.ToolCall
	tool    Tool
	started bool // by a process that ended
	existed bool // the file it is about, before it ran
	with    move // goes into the log with its start
	result  tool.Result
	err     error
}

// carryOut runs calls at the same time, each with its result durable as soon
// as it is there. Calls cut off by the end of the context have no result yet.
func (p *turn) carryOut(ctx, work context.Context, it *Iteration, calls []session.ToolCall) error {
	var allowed []running
	var asked StopReason
	for _, call := range calls {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		c, refused, ask, err := p.admit(ctx, work, call)
		if err != nil {
			return err
		}
		if ask != "" {
			asked = ask
			break
		}
		if refused != nil {
			if err := p.refuse(ctx, it, call, *refused); err != nil {
				return err
			}
			continue
		}
		allowed = append(allowed, c)
	}
	if err := p.start(ctx, allowed); err != nil {
		return err
	}
	if err := p.collect(ctx, work, it, allowed); err != nil {
		return err
	}
	if asked != "" {
		return Stop(asked, nil)
	}
	return nil
}

// refusal is the result of a call that is not run.
type refusal struct {
	tool.Result
	synthetic bool
	known     bool // it is told by an event of its own, or no failure
	duplicate bool
	with      move // goes into the log with the result
}

func refuse(text string) *refusal {
	return &refusal{Result: tool.Result{Content: text, IsError: true}}
}

// admit decides whether a call is run. Asked is what the loop ends with where
// a person has to say something first.
func (p *turn) admit(ctx, work context.Context, call session.ToolCall) (c running, refused *refusal, asked StopReason, err error) {
	state := p.r.state()
	started := state.Tools.Started.Has(call.ID)
	t, known, err := p.r.find(ctx, call.Name)
	if err != nil {
		return c, nil, "", err
	}
	c = running{call: call, tool: t, started: started}
	if started {
		if work.Err() == nil && known && t.Spec().Nature != tool.Once {
			return c, nil, "", nil
		}
		r := refuse(interruptedText)
		r.synthetic = true
		return c, r, "", nil
	}
	if why := context.Cause(work); why != nil {
		r := refuse("not run: " + why.Error())
		r.synthetic, r.known = true, true
		return c, r, "", nil
	}
	if refused := p.unfit(ctx, &state, call, t, known); refused != nil {
		return c, refused, "", nil
	}
	if call.Name == inputTool {
		refused, asked, err = p.r.askInput(ctx, call)
		return c, refused, asked, err
	}
	if ownTool(call.Name) {
		return c, nil, "", nil
	}
	v, err := p.r.authorize(ctx, call, t, known)
	switch {
	case err != nil:
		return c, nil, "", err
	case v.allow:
		c.existed, c.with = p.r.exists(call, t), v.with
		return c, nil, "", nil
	case v.ask != nil:
		return c, nil, StopApproval, nil
	case v.result != nil:
		return c, &refusal{Result: *v.result, known: true, with: v.with}, "", nil
	}
	return c, refuse("not run: it was denied"), "", nil
}

// unfit is the refusal of a call that nobody need be asked about.
func (p *turn) unfit(ctx context.Context, state *session.TaskState, call session.ToolCall, t Tool, known bool) *refusal {
	if blocks(state.Loop, call) {
		return refuse(blockedLoopText)
	}
	if checklistTool(call.Name) && !checklistMode(p.r.row().ExecutionMode) {
		return refuse(fmt.Sprintf(modeOnlyText, call.Name))
	}
	if call.Name == inputTool && !inputMode(p.r.row().ExecutionMode) {
		return refuse(noInputText)
	}
	if !known {
		var names []string
		if offered, err := p.r.offered(ctx); err == nil {
			for _, t := range offered {
				names = append(names, t.Spec().Name)
			}
		}
		return refuse(fmt.Sprintf(unknownToolText, call.Name, strings.Join(names, ", ")))
	}
	if _, bad := llm.Malformed(call.Arguments); bad {
		return refuse(badArgumentsText)
	}
	now := millis(p.r.x.c.Clock())
	if f, off := disabled(state.Tools, t, now); off {
		return refuse(fmt.Sprintf(disabledText, call.Name, time.UnixMilli(f.DisabledUntil).UTC().Format(time.RFC3339), f.LastError))
	}
	if text, remembered := p.r.remembered(state, call, t, now); remembered {
		return &refusal{Result: tool.Result{Content: text}, known: true, duplicate: true}
	}
	return nil
}

// start writes that calls begin, before any of them does.
func (p *turn) start(ctx context.Context, calls []running) error {
	m := starting(calls)
	if len(m.changes) == 0 {
		return nil
	}
	return p.r.append(ctx, m)
}

// starting is the move by which calls begin.
func starting(calls []running) move {
	var begun []session.Change
	for _, c := range calls {
		if !c.started {
			begun = append(begun, event("tool_call", map[string]any{"callId": c.call.ID, "tool": c.call.Name, "input": c.call.Arguments}))
		}
	}
	if len(begun) == 0 {
		return move{}
	}
	m := move{changes: begun, state: func(s *session.TaskState) {
		counts := session.BudgetCounters{}
		if s.Tools.Counts != nil {
			counts = *s.Tools.Counts
		}
		for _, c := range calls {
			if c.started {
				continue
			}
			s.Tools.Started = s.Tools.Started.With(c.call.ID)
			counts.ToolCalls++
			if c.tool.Effects.Has(permission.Network) && strings.Contains(c.call.Name, "search") {
				counts.WebSearchCalls++
			}
		}
		s.Tools.Counts = &counts
	}}
	for _, c := range calls {
		if !c.started {
			m = m.and(c.with)
		}
	}
	return m
}

// collect runs calls and writes their results as they come. What was cut off
// by the end of the context is decided on resume.
func (p *turn) collect(ctx, work context.Context, it *Iteration, calls []running) error {
	ended := make(chan running, len(calls))
	for _, c := range calls {
		go func() {
			use := tool.Call{ID: c.call.ID, SessionID: p.r.ID(), Arguments: c.call.Arguments}
			c.result, c.err = agent.Invoke(work, c.tool, use, grace)
			ended <- c
		}()
	}
	var failed error
	for range calls {
		c := <-ended
		switch {
		case failed != nil:
		case c.err != nil && ctx.Err() != nil:
			failed = context.Cause(ctx)
		default:
			failed = p.finish(ctx, it, c)
		}
	}
	return failed
}

// grace is the time a tool has to end after it was told to.
const grace = 5 * time.Second

// finish writes what came of a call.
func (p *turn) finish(ctx context.Context, it *Iteration, c running) error {
	if c.err != nil {
		c.result.Content, c.result.IsError = c.err.Error(), true
		if errors.Is(c.err, context.Canceled) {
			c.result.Content = "stopped: it was broken off"
		}
	}
	return p.r.record(ctx, it, c)
}

// refuse writes the result of a call that was not run.
func (p *turn) refuse(ctx context.Context, it *Iteration, call session.ToolCall, f refusal) error {
	changes := []session.Change{p.r.resultMessage(it.StepID, call, f.Result, f.synthetic)}
	if !f.known {
		changes = append(changes, event("tool_error", map[string]any{
			"callId": call.ID, "tool": call.Name, "input": call.Arguments, "error": f.Content,
		}))
	}
	m := move{changes: changes, state: func(s *session.TaskState) {
		s.Tools.Started = s.Tools.Started.Without(call.ID)
		if f.duplicate {
			counts := session.BudgetCounters{}
			if s.Tools.Counts != nil {
				counts = *s.Tools.Counts
			}
			counts.DuplicatesBlocked++
			s.Tools.Counts = &counts
		}
	}}
	return p.r.append(ctx, m.and(f.with))
}
