package workflow

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// dag runs tasks that depend on each other, layer by layer.
type dag struct {
	c       *spec.Workflow
	results map[string]spec.Map[any]
	shown   map[string]template.Value
	done    []string // ids, by layer and place in it
	layer   int      // the first that is not done
	last    final
	latest
}

func newDAG(c *spec.Workflow) *dag {
	return &dag{c: c, results: map[string]spec.Map[any]{}, shown: map[string]template.Value{}}
}

func (p *dag) run(ctx context.Context, r *run) (final, error) {
	var earlier []int // tasks of the layers before
	for n, layer := range p.c.Layers() {
		if err := p.runLayer(ctx, r, n, layer, earlier); err != nil {
			return final{}, err
		}
		p.layer = n + 1
		earlier = append(earlier, layer...)
	}
	return p.last, nil
}

// runLayer does the tasks before a question at the same time, asks the
// question, then continues with those after it.
func (p *dag) runLayer(ctx context.Context, r *run, n int, layer, earlier []int) error {
	for len(layer) > 0 {
		together := 0
		for together < len(layer) && p.c.Tasks[layer[together]].Ask == nil {
			together++
		}
		if err := p.runTasks(ctx, r, layer[:together], earlier); err != nil {
			return err
		}
		if layer = layer[together:]; len(layer) == 0 {
			return nil
		}
		if err := p.ask(ctx, r, n, layer[0]); err != nil {
			return err
		}
		layer = layer[1:]
	}
	return nil
}

// runTasks does agents' tasks at the same time. What they see is what was
// there before the first of them.
func (p *dag) runTasks(ctx context.Context, r *run, tasks, earlier []int) error {
	if len(tasks) == 0 {
		return nil
	}
	scope := r.scopeWith(p.inside())
	entries := make([]*entry, len(tasks))
	errs := r.each(len(tasks), r.spec.Runtime.MaxParallel, func(i int) (err error) {
		t := p.c.Tasks[tasks[i]]
		entries[i], err = r.work(ctx, unit{
			key: UnitKey("task/", t.ID, ""), agent: t.Agent, lane: LaneMain, event: TaskStart, complete: TaskComplete, data: UnitData{TaskID: &t.ID},
			earlier: p.earlier(earlier, t.Agent), source: t.Input,
			input: func() (string, error) {
				return r.render(fmt.Sprintf("/pattern/config/tasks/%d/input", tasks[i]), t.Input, scope)
			},
		})
		return err
	})
	for i, e := range entries {
		if e == nil || errs[i] != nil {
			continue
		}
		t := p.c.Tasks[tasks[i]]
		p.add(t.ID, spec.Map[any]{
			{Name: "response", Value: e.response()}, {Name: "status", Value: "success"},
			{Name: "tokens_estimated", Value: e.result.Tokens}, {Name: "agent", Value: t.Agent},
		}, final{e.response(), t.Agent})
	}
	return worst(errs)
}

// earlier lists the units of an agent among tasks of earlier layers.
func (p *dag) earlier(tasks []int, agent string) []string {
	var keys []string
	for _, i := range tasks {
		if t := p.c.Tasks[i]; t.Ask == nil && t.Agent == agent {
			keys = append(keys, UnitKey("task/", t.ID, ""))
		}
	}
	return keys
}

func (p *dag) ask(ctx context.Context, r *run, layer, i int) error {
	t := p.c.Tasks[i]
	err := p.askPerson(ctx, r, prompt{
		unit: UnitKey("task/", t.ID, ""), ask: t.Ask, pointer: fmt.Sprintf("/pattern/config/tasks/%d", i), scope: r.scopeWith(p.inside()),
		place: HITLState{TaskID: &t.ID, LayerIndex: &layer},
	})
	if err != nil {
		return err
	}
	p.add(t.ID, spec.Map[any]{
		{Name: "type", Value: "hitl"}, {Name: "prompt", Value: p.hitl.Prompt}, {Name: "response", Value: *p.answer},
		{Name: "status", Value: "success"}, {Name: "tokens_estimated", Value: 0}, {Name: "agent", Value: "hitl"},
	}, final{*p.answer, "hitl"})
	return nil
}

func (p *dag) add(id string, result spec.Map[any], last final) {
	p.results[id], p.shown[id] = result, value(result)
	p.done = append(p.done, id)
	p.last = last
}

// inside returns what a task sees of those before it.
func (p *dag) inside() template.Scope {
	tasks := &template.Dict{}
	for _, id := range p.done {
		tasks.Set(id, p.shown[id])
	}
	return merge(template.Scope{"tasks": tasks}, p.answerScope())
}

func (p *dag) state() spec.Map[any] {
	state := spec.Map[any]{}
	if len(p.done) > 0 || p.hitl != nil {
		results := spec.Map[any]{}
		for _, id := range p.done {
			results = append(results, spec.Entry[any]{Name: id, Value: p.results[id]})
		}
		state = spec.Map[any]{
			{Name: "task_results", Value: results}, {Name: "completed_tasks", Value: append([]string{}, p.done...)},
			{Name: "current_layer", Value: p.layer},
		}
	}
	return p.withQuestion(state)
}

func (p *dag) scope() template.Scope { return template.Scope{"tasks": p.inside()["tasks"]} }
