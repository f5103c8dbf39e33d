package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// parallel runs branches at the same time, then reduces their results.
type parallel struct {
	c        *spec.Parallel
	branches []*branch
	asked    bool // a question was asked, ever
	reduce   *HITLState
	reduced  *final
}

// branch is a chain of its own.
type branch struct {
	*steps
	id   string
	done bool
	// afterAnswer is its state right after its last answer: a branch with
	// questions keeps it when it is done.
	afterAnswer spec.Map[any]
}

func newParallel(c *spec.Parallel) *parallel {
	p := &parallel{c: c}
	for i, b := range c.Branches {
		made := &branch{id: b.ID, steps: &steps{
			prefix: UnitKey("branch/", b.ID, "/"), pointer: fmt.Sprintf("/pattern/config/branches/%d/steps", i), steps: b.Steps, branch: true,
			place: HITLState{BranchID: &c.Branches[i].ID, StepType: ptr("branch")},
		}}
		if c.ForEach != nil {
			made.pointer, made.item = "/pattern/config/for_each/steps", &b.Item
			made.around = template.Scope{"item": value(b.Item), "item_index": template.Int(i)}
		}
		p.branches = append(p.branches, made)
	}
	return p
}

func (p *parallel) run(ctx context.Context, r *run) (final, error) {
	errs := r.each(len(p.branches), r.spec.Runtime.MaxParallel, func(i int) error { return p.branches[i].run(ctx, r) })
	for _, b := range p.branches {
		p.asked = p.asked || b.hitl != nil
	}
	if err := worst(errs); err != nil && (r.runner == nil || !errors.Is(err, errWaiting)) {
		return final{}, err
	}
	if err := p.ask(ctx, r); err != nil {
		return final{}, err
	}
	if p.c.Reduce == nil {
		return final{text: p.joined(), agent: ""}, nil
	}
	return p.runReduce(ctx, r)
}

// run does the steps of a branch up to its end or its next question.
func (b *branch) run(ctx context.Context, r *run) error {
	r.emitOnce(b.key(0), BranchStart, BranchData{BranchID: b.id})
	for i := range b.steps.steps {
		if b.steps.steps[i].Ask != nil && r.runner != nil {
			if _, asked, _ := r.find(b.prompt(r, i)); !asked {
				return errWaiting // those of all branches are asked together, once nothing else is left to do
			}
		}
		if err := b.step(ctx, r, i); err != nil {
			return err
		}
		if b.steps.steps[i].Ask != nil {
			b.afterAnswer = b.shownState()
		}
	}
	b.done = true
	r.emitOnce(b.key(len(b.steps.steps)-1), BranchComplete, BranchData{b.id, &b.last.text, &b.tokens})
	return nil
}

// prompt returns the question at a step.
func (b *branch) prompt(r *run, i int) prompt {
	place := b.place
	place.StepIndex = &i
	s := b.steps.steps[i]
	return prompt{
		unit: b.key(i), ask: s.Ask, pointer: fmt.Sprintf("%s/%d", b.pointer, i), place: place,
		scope: r.scopeWith(b.around, b.inside(i), values(s.Vars)),
	}
}

func (b *branch) shownState() spec.Map[any] {
	return spec.Map[any]{
		{Name: "step_history", Value: slices.Clone(b.historyList())}, {Name: "current_step", Value: len(b.history)},
		{Name: "cumulative_tokens", Value: b.tokens},
	}
}

// ask asks the questions that the branches have reached, all at once. A branch
// may also wait within a unit, which has asked already.
func (p *parallel) ask(ctx context.Context, r *run) error {
	var prompts []prompt
	waiting := false
	for _, b := range p.branches {
		if b.done {
			continue
		}
		waiting = true
		if b.steps.steps[len(b.history)].Ask == nil {
			continue
		}
		p.asked = true
		next := b.prompt(r, len(b.history))
		if state, asked, _ := r.find(next); asked {
			b.hitl = &state
		} else {
			prompts = append(prompts, next)
		}
	}
	if len(prompts) > 0 {
		if err := r.runner.ask(ctx, r, prompts...); err != nil {
			return err
		}
	}
	if waiting {
		return errWaiting
	}
	return nil
}

// runReduce makes one of the branches' results.
func (p *parallel) runReduce(ctx context.Context, r *run) (final, error) {
	s := *p.c.Reduce
	scope := r.scopeWith(p.scope(), values(s.Vars))
	if s.Ask != nil {
		state, err := r.ask(ctx, prompt{
			unit: "reduce", ask: s.Ask, pointer: "/pattern/config/reduce", scope: scope, place: HITLState{StepType: ptr("reduce")},
		})
		if state.Unit != "" {
			p.reduce, p.asked = &state, true
		}
		if err != nil {
			return final{}, err
		}
		p.reduced = &final{*state.UserResponse, "hitl"}
		return *p.reduced, nil
	}
	e, err := r.work(ctx, unit{
		key: "reduce", agent: s.Agent, lane: LaneMain, tools: s.ToolOverrides, earlier: p.earlier(s.Agent),
		source: []any{s.Input, s.Vars, s.ToolOverrides},
		input:  func() (string, error) { return r.render("/pattern/config/reduce/input", s.Input, scope) },
	})
	if err != nil {
		return final{}, err
	}
	p.reduced = &final{e.response(), s.Agent}
	return *p.reduced, nil
}

// earlier lists the units of an agent in all branches, as written.
func (p *parallel) earlier(agent string) []string {
	var keys []string
	for _, b := range p.branches {
		for i, s := range b.steps.steps {
			if s.Ask == nil && s.Agent == agent {
				keys = append(keys, b.key(i))
			}
		}
	}
	return keys
}

// joined returns the final response where nothing reduces.
func (p *parallel) joined() string {
	ordered := slices.Clone(p.branches)
	if p.c.ForEach == nil {
		slices.SortFunc(ordered, func(a, b *branch) int { return strings.Compare(a.id, b.id) })
	}
	texts := make([]string, len(ordered))
	for i, b := range ordered {
		texts[i] = fmt.Sprintf("Branch %s:\n%s", b.id, b.last.text)
	}
	return strings.Join(texts, "\n\n---\n\n")
}

func (p *parallel) state() spec.Map[any] {
	completed, results, states := []string{}, spec.Map[any]{}, spec.Map[any]{}
	var waiting []HITLState
	begun, all := p.asked, true
	for _, b := range p.branches {
		begun = begun || len(b.history) > 0
		if b.done {
			completed = append(completed, b.id)
			results = append(results, spec.Entry[any]{Name: b.id, Value: b.result()})
			if b.afterAnswer != nil {
				states = append(states, spec.Entry[any]{Name: b.id, Value: b.afterAnswer})
			}
			continue
		}
		all = false
		if len(b.history) > 0 || b.hitl != nil {
			states = append(states, spec.Entry[any]{Name: b.id, Value: b.shownState()})
		}
		if b.hitl != nil && b.hitl.Active {
			waiting = append(waiting, *b.hitl)
		}
	}
	if !begun {
		return spec.Map[any]{}
	}
	state := spec.Map[any]{
		{Name: "completed_branches", Value: completed}, {Name: "branch_results", Value: results},
		{Name: "reduce_executed", Value: p.reduced != nil}, {Name: "branch_states", Value: states},
	}
	if p.reduced != nil {
		state = state.With("final_response", p.reduced.text)
	}
	return p.withQuestions(state, waiting, all)
}

// withQuestions adds the questions of branches and of the reduction.
func (p *parallel) withQuestions(state spec.Map[any], waiting []HITLState, all bool) spec.Map[any] {
	switch {
	case len(waiting) > 0:
		state = state.With("current_step", *waiting[0].StepIndex).With("hitl_state", waiting[0])
		if len(waiting) > 1 {
			state = state.With("hitl_pending", waiting)
		}
	case p.reduce != nil && p.reduced == nil:
		state = state.With("hitl_state", *p.reduce)
	case p.asked && (all || p.reduced != nil):
		state = state.With("hitl_state", nil)
	case p.asked:
		if h := p.lastAnswered(); h != nil {
			state = state.With("hitl_state", *h)
		}
	}
	return state
}

// lastAnswered returns the question of a branch that works again.
func (p *parallel) lastAnswered() *HITLState {
	for _, b := range p.branches {
		if !b.done && b.hitl != nil {
			return b.hitl
		}
	}
	return nil
}

func (p *parallel) scope() template.Scope {
	all := &template.Dict{}
	for _, b := range p.branches {
		if b.done {
			all.Set(b.id, value(b.result()))
		}
	}
	return template.Scope{"branches": all}
}

func (b *branch) result() spec.Map[any] {
	result := spec.Map[any]{
		{Name: "response", Value: b.last.text}, {Name: "status", Value: "success"}, {Name: "tokens_estimated", Value: b.tokens},
		{Name: "step_history", Value: b.historyList()},
	}
	if b.item != nil {
		result = result.With("item", *b.item)
	}
	return result
}
