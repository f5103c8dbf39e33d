package workflow

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// steps runs one step after the other: a chain, a route or a branch.
type steps struct {
	prefix, pointer string
	steps           []spec.Step
	place           HITLState      // of its questions, without the index
	around          template.Scope // what is in scope besides the steps
	branch          bool           // the response of the step before is in scope
	item            *any           // of a ForEach

	history []spec.Map[any] // what the state shows
	list    template.List   // what templates see
	last    final
	latest
	tokens int
}

func (p *steps) run(ctx context.Context, r *run) (final, error) {
	for i := range p.steps {
		if err := p.step(ctx, r, i); err != nil {
			return final{}, err
		}
	}
	return p.last, nil
}

func (p *steps) step(ctx context.Context, r *run, i int) error {
	s := p.steps[i]
	scope := r.scopeWith(p.around, p.inside(i), values(s.Vars))
	pointer := fmt.Sprintf("%s/%d", p.pointer, i)
	if s.Ask != nil {
		place := p.place
		place.StepIndex = &i
		if err := p.askPerson(ctx, r, prompt{unit: p.key(i), ask: s.Ask, pointer: pointer, scope: scope, place: place}); err != nil {
			return err
		}
		p.add(spec.Map[any]{
			{Name: "index", Value: i}, {Name: "type", Value: "hitl"}, {Name: "prompt", Value: p.hitl.Prompt},
			{Name: "response", Value: *p.answer}, {Name: "tokens_estimated", Value: 0},
		}, final{*p.answer, "hitl"})
		return nil
	}
	number := i + 1
	if p.branch {
		number = 0
	}
	e, err := r.work(ctx, unit{
		key: p.key(i), agent: s.Agent, lane: LaneMain, data: UnitData{StepIndex: &i}, tools: s.ToolOverrides, number: number,
		earlier: p.earlier(i), source: []any{s.Input, s.Vars, s.ToolOverrides, p.item}, input: func() (string, error) { return r.render(pointer+"/input", s.Input, scope) },
	})
	if err != nil {
		return err
	}
	p.tokens += e.result.Tokens
	p.add(spec.Map[any]{
		{Name: "index", Value: i}, {Name: "agent", Value: s.Agent}, {Name: "response", Value: e.response()},
		{Name: "tokens_estimated", Value: e.result.Tokens},
	}, final{e.response(), s.Agent})
	return nil
}

func (p *steps) key(i int) string { return fmt.Sprintf("%sstep/%d", p.prefix, i) }

func (p *steps) add(entry spec.Map[any], last final) {
	p.history = append(p.history, entry)
	p.list = append(p.list, value(entry))
	p.last = last
}

// earlier lists the units of the same agent before a step.
func (p *steps) earlier(i int) []string {
	var keys []string
	for j, s := range p.steps[:i] {
		if s.Ask == nil && s.Agent == p.steps[i].Agent {
			keys = append(keys, p.key(j))
		}
	}
	return keys
}

// inside returns what a step sees of those before it.
func (p *steps) inside(i int) template.Scope {
	scope := template.Scope{"steps": p.list[:len(p.list):len(p.list)]}
	if p.branch && i > 0 {
		scope["last_response"] = template.Str(p.last.text)
	}
	return merge(scope, p.answerScope())
}

func (p *steps) historyList() []spec.Map[any] {
	if p.history == nil {
		return []spec.Map[any]{}
	}
	return p.history
}

// chain runs steps and nothing else.
type chain struct{ steps }

func newChain(c *spec.Chain) *chain {
	return &chain{steps{pointer: "/pattern/config/steps", steps: c.Steps}}
}

func (p *chain) state() spec.Map[any] {
	state := spec.Map[any]{}
	if len(p.history) > 0 || p.hitl != nil {
		state = spec.Map[any]{{Name: "current_step", Value: len(p.history)}, {Name: "step_history", Value: p.historyList()}}
	}
	return p.withQuestion(state)
}

func (p *chain) scope() template.Scope { return template.Scope{"steps": p.list} }
