package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/pyjson"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// planTries is how often an orchestrator is asked for a plan that can be read.
const planTries = 3

// orchestrator has an agent make a plan and workers carry it out, and closes
// with their results.
type orchestrator struct {
	c *spec.Orchestrator

	plan    json.RawMessage
	planner []string // the units that made it
	tasks   []string
	results map[int]spec.Map[any]
	worked  bool // all workers are done
	latest
	reduce  *final
	writeup *final
}

func newOrchestrator(c *spec.Orchestrator) *orchestrator {
	return &orchestrator{c: c, results: map[int]spec.Map[any]{}}
}

func (p *orchestrator) run(ctx context.Context, r *run) (final, error) {
	if err := p.makePlan(ctx, r); err != nil {
		return final{}, err
	}
	if err := p.reviewPlan(ctx, r); err != nil {
		return final{}, err
	}
	if err := p.runWorkers(ctx, r); err != nil {
		return final{}, err
	}
	if p.c.Reduce != nil {
		if err := p.reviewResults(ctx, r); err != nil {
			return final{}, err
		}
		if err := p.runClosing(ctx, r, "reduce", *p.c.Reduce, &p.reduce); err != nil {
			return final{}, err
		}
	}
	if p.c.Writeup != nil {
		if err := p.runClosing(ctx, r, "writeup", *p.c.Writeup, &p.writeup); err != nil {
			return final{}, err
		}
	}
	return p.final(), nil
}

func (p *orchestrator) final() final {
	for _, f := range []*final{p.writeup, p.reduce} {
		if f != nil && f.text != "" {
			return *f
		}
		if f != nil {
			break // an empty end is none
		}
	}
	texts := make([]string, len(p.tasks))
	for i := range p.tasks {
		response, _ := p.results[i].Get("response")
		texts[i] = fmt.Sprintf("Worker %d: %v", i, response)
	}
	return final{strings.Join(texts, "\n\n"), p.c.Worker.Agent}
}

func (p *orchestrator) makePlan(ctx context.Context, r *run) error {
	c := p.c.Planner
	var unreadable *string
	for k := range planTries {
		key := fmt.Sprintf("plan#%d", k)
		e, err := r.work(ctx, unit{
			key: key, agent: c.Agent, lane: LaneMain, earlier: p.planner[:len(p.planner):len(p.planner)], read: readPlan,
			input: func() (string, error) { return planText(r.spec.Inputs.Values, c.Limits.MaxWorkers, unreadable), nil },
		})
		if err != nil {
			return err
		}
		p.planner = append(p.planner, key)
		if e.result.Value == nil {
			unreadable = ptr(e.response())
			continue
		}
		p.plan = e.result.Value
		if p.tasks, err = planTasks(p.plan); err != nil {
			return fmt.Errorf("read the plan of %s: %w", key, err)
		}
		return nil
	}
	return &unusableAnswer{p.planner, fmt.Errorf("the plan could not be read after %d tries", planTries)}
}

func (p *orchestrator) reviewPlan(ctx context.Context, r *run) error {
	if p.c.DecompositionReview == nil {
		return nil
	}
	plan, err := template.ParseJSON(p.plan)
	if err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	before := template.Scope{
		"orchestrator_response": template.Str(pyjson.Print(p.plan, "  ", true)), "subtasks": plan, "task_count": template.Int(len(p.tasks)),
	}
	return p.askPerson(ctx, r, prompt{
		unit: "plan/review", ask: p.c.DecompositionReview, pointer: "/pattern/config/decomposition_review",
		scope: merge(before, r.base), place: HITLState{Phase: ptr("decomposition"), WorkerCount: ptr(len(p.tasks))},
	})
}

func (p *orchestrator) runWorkers(ctx context.Context, r *run) error {
	entries := make([]*entry, len(p.tasks))
	errs := r.each(len(p.tasks), p.c.Planner.Limits.MaxWorkers, func(i int) (err error) {
		key := fmt.Sprintf("worker/%d", i)
		entries[i], err = r.work(ctx, unit{
			key: key, agent: p.c.Worker.Agent, lane: key, event: WorkerStart, complete: WorkerComplete, tools: p.c.Worker.Tools, source: p.c.Worker.Tools,
			data: UnitData{WorkerIndex: &i, Task: &p.tasks[i]}, input: func() (string, error) { return p.tasks[i], nil },
		})
		return err
	})
	for i, e := range entries {
		if e != nil && errs[i] == nil {
			p.results[i] = spec.Map[any]{
				{Name: "response", Value: e.response()}, {Name: "status", Value: "success"}, {Name: "tokens", Value: e.result.Tokens},
				{Name: "task", Value: p.tasks[i]},
			}
		}
	}
	p.worked = worst(errs) == nil
	return worst(errs)
}

func (p *orchestrator) reviewResults(ctx context.Context, r *run) error {
	if p.c.ReduceReview == nil {
		return nil
	}
	before := template.Scope{"worker_count": template.Int(len(p.tasks))}
	return p.askPerson(ctx, r, prompt{
		unit: "reduce/review", ask: p.c.ReduceReview, pointer: "/pattern/config/reduce_review",
		scope: merge(before, p.workersScope(), r.base, p.said()), place: HITLState{Phase: ptr("reduce"), WorkerCount: ptr(len(p.tasks))},
	})
}

// workersScope returns what the closing steps see.
func (p *orchestrator) workersScope() template.Scope {
	return template.Scope{"workers": value(p.resultList()), "num_workers": template.Int(len(p.tasks)), "round_count": template.Int(1)}
}

func (p *orchestrator) resultList() []spec.Map[any] {
	list := make([]spec.Map[any], 0, len(p.tasks))
	for i := range p.tasks {
		if result, ok := p.results[i]; ok {
			list = append(list, result)
		}
	}
	return list
}

// said returns the last answer of a person and, for the writeup, the reduction.
func (p *orchestrator) said() template.Scope {
	scope := merge(p.answerScope())
	if p.reduce != nil {
		scope["reduce_response"] = template.Str(p.reduce.text)
	}
	return scope
}

// runClosing runs the reduction or the writeup.
func (p *orchestrator) runClosing(ctx context.Context, r *run, name string, s spec.Step, into **final) error {
	scope := merge(p.workersScope(), r.base, p.said(), values(s.Vars))
	pointer := "/pattern/config/" + name
	if s.Ask != nil {
		err := p.askPerson(ctx, r, prompt{
			unit: name, ask: s.Ask, pointer: pointer, scope: scope, place: HITLState{Phase: &name, WorkerCount: ptr(len(p.tasks))},
		})
		if err == nil {
			*into = &final{*p.answer, "hitl"}
		}
		return err
	}
	e, err := r.work(ctx, unit{
		key: name, agent: s.Agent, lane: LaneMain, tools: s.ToolOverrides, earlier: p.earlier(name, s.Agent),
		source: []any{s.Input, s.Vars, s.ToolOverrides},
		input:  func() (string, error) { return r.render(pointer+"/input", s.Input, scope) },
	})
	if err != nil {
		return err
	}
	*into = &final{e.response(), s.Agent}
	return nil
}

// earlier lists the units of an agent before a closing step.
func (p *orchestrator) earlier(name, agent string) []string {
	var keys []string
	if p.c.Planner.Agent == agent {
		keys = append(keys, p.planner...)
	}
	if s := p.c.Reduce; name == "writeup" && s != nil && s.Ask == nil && s.Agent == agent {
		keys = append(keys, "reduce")
	}
	return keys
}

func (p *orchestrator) state() spec.Map[any] {
	state := spec.Map[any]{}
	if p.plan == nil {
		return state
	}
	if !p.worked || p.c.DecompositionReview != nil {
		state = spec.Map[any]{
			{Name: "orchestrator_response", Value: string(pyjson.Print(p.plan, "  ", true))}, {Name: "orchestrator_subtasks", Value: p.plan},
		}
	}
	state = state.With("workers_executed", p.worked)
	if p.worked {
		state = state.With("worker_results", p.resultList()).With("reduce_executed", p.reduce != nil)
		if p.reduce != nil {
			state = state.With("reduce_response", p.reduce.text)
		}
		state = state.With("writeup_executed", p.writeup != nil)
		if p.writeup != nil {
			state = state.With("writeup_response", p.writeup.text)
		}
	} else {
		states := spec.Map[any]{}
		for i := range p.tasks {
			if result, ok := p.results[i]; ok {
				states = append(states, spec.Entry[any]{Name: strconv.Itoa(i), Value: result})
			}
		}
		state = state.With("worker_states", states)
	}
	return p.withQuestion(state)
}

func (p *orchestrator) scope() template.Scope {
	scope := merge(p.workersScope(), p.said())
	if p.writeup != nil {
		scope["writeup_response"] = template.Str(p.writeup.text)
	}
	return scope
}
