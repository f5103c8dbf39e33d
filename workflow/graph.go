package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// maxGraphSteps is how many agents a graph without a budget of steps visits.
const maxGraphSteps = 100

// graph visits nodes that lead to each other.
type graph struct {
	c *spec.Graph

	current string
	results map[string]spec.Map[any]
	shown   map[string]template.Value
	visits  map[string]int
	steps   int      // agents' nodes
	path    []string // nodes in the order in which they ended
	units   map[string][]string
	latest
	tokens int
	paused *int // tokens when the last question was asked
	last   final
	before imported
}

func newGraph(c *spec.Graph) *graph {
	p := &graph{
		c: c, results: map[string]spec.Map[any]{}, shown: map[string]template.Value{}, visits: map[string]int{}, units: map[string][]string{}, path: []string{},
	}
	for _, n := range c.Nodes {
		var agent any
		if n.Value.Ask == nil {
			agent = n.Value.Agent
		}
		p.set(n.Name, spec.Map[any]{
			{Name: "response", Value: nil}, {Name: "agent", Value: agent}, {Name: "status", Value: "not_executed"}, {Name: "iteration", Value: 0},
		})
	}
	if len(c.Nodes) > 0 {
		p.current = c.Nodes[0].Name
	}
	return p
}

func (p *graph) set(id string, result spec.Map[any]) {
	p.results[id], p.shown[id] = result, value(result)
}

func (p *graph) run(ctx context.Context, r *run) (final, error) {
	p.before = r.index.imported()
	for {
		node, ok := p.c.Nodes.Get(p.current)
		if !ok {
			return final{}, fmt.Errorf("there is no node %q", p.current)
		}
		visit := p.visits[p.current] + 1
		if visit > p.c.MaxIterations {
			return final{}, fmt.Errorf("node %q has run %d times, which is all that max_iterations allows", p.current, p.c.MaxIterations)
		}
		var err error
		if node.Ask != nil {
			err = p.ask(ctx, r, node, visit)
		} else {
			err = p.work(ctx, r, node, visit)
		}
		if err != nil {
			return final{}, err
		}
		p.path = append(p.path, p.current)
		if len(p.path) == len(p.before.Path) {
			p.tokens = max(p.tokens, p.before.Tokens)
		}
		next, err := p.next()
		if err != nil {
			return final{}, err
		}
		if next == "" {
			return p.last, nil
		}
		p.current = next
	}
}

// imported is what a run did before it came here: the nodes it visited, and the
// words that it counted. What the nodes answered at earlier visits, on which
// both depend, may not be recorded.
type imported struct {
	Path   []string `json:"execution_path"`
	Tokens int      `json:"cumulative_tokens"`
}

func (x *index) imported() (before imported) {
	if x.begun.Extra == nil || json.Unmarshal(x.begun.Extra, &before) != nil {
		return imported{}
	}
	return before
}

// work visits an agent's node.
func (p *graph) work(ctx context.Context, r *run, n spec.Node, visit int) error {
	id := p.current
	key := UnitKey("node/", id, fmt.Sprintf("@%d", visit))
	if b := r.spec.Runtime.Budgets; (b == nil || b.MaxSteps == nil) && p.steps >= maxGraphSteps {
		return fmt.Errorf("%d nodes have run; set budgets.max_steps for more", maxGraphSteps)
	}
	e, err := r.work(ctx, unit{
		key: key, agent: n.Agent, lane: LaneMain, event: NodeStart, complete: NodeComplete, earlier: slices.Clone(p.units[n.Agent]), source: n.Input,
		data: UnitData{NodeID: &id, Iteration: &visit}, input: func() (string, error) {
			if n.Input == nil {
				return nodeText(id, p.ran()), nil
			}
			return r.render("/pattern/config/nodes/"+escapePointer(id)+"/input", *n.Input, r.scopeWith(p.inside()))
		},
	})
	if err != nil {
		if reason := r.failureOf(key); reason != "" {
			p.set(id, spec.Map[any]{
				{Name: "response", Value: "ERROR: " + reason}, {Name: "agent", Value: n.Agent}, {Name: "status", Value: "error"},
				{Name: "iteration", Value: visit},
			})
		}
		return err
	}
	p.visits[id] = visit
	p.steps++
	p.tokens += e.result.Tokens
	p.units[n.Agent] = append(p.units[n.Agent], key)
	p.last = final{e.response(), n.Agent}
	p.set(id, spec.Map[any]{
		{Name: "response", Value: e.response()}, {Name: "agent", Value: n.Agent}, {Name: "status", Value: "success"}, {Name: "iteration", Value: visit},
	})
	return nil
}

// failureOf returns why a unit failed at its last attempt.
func (r *run) failureOf(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.index.units[key]; e != nil && e.failure != nil {
		return e.failure.Message
	}
	return ""
}

// ask visits a person's node.
func (p *graph) ask(ctx context.Context, r *run, n spec.Node, visit int) error {
	id := p.current
	state, err := r.ask(ctx, prompt{
		unit: UnitKey("node/", id, fmt.Sprintf("@%d", visit)), ask: n.Ask, pointer: "/pattern/config/nodes/" + escapePointer(id),
		scope: r.scopeWith(p.inside()), place: HITLState{NodeID: &id},
	})
	if state.Unit == "" {
		return err
	}
	p.hitl, p.paused, p.visits[id] = &state, ptr(p.tokens), visit
	result := spec.Map[any]{
		{Name: "response", Value: nil}, {Name: "type", Value: "hitl"}, {Name: "prompt", Value: state.Prompt},
		{Name: "status", Value: "waiting_for_user"}, {Name: "iteration", Value: visit},
	}
	if err == nil {
		p.answer, p.last = state.UserResponse, final{*state.UserResponse, "hitl"}
		result = result.With("response", *state.UserResponse).With("status", "success")
	}
	p.set(id, result)
	return err
}

// next returns where the first edge from the current node leads; "" is the end.
func (p *graph) next() (string, error) {
	if n := len(p.path); n < len(p.before.Path) {
		return p.before.Path[n], nil
	}
	i := slices.IndexFunc(p.c.Edges, func(e spec.Edge) bool { return e.From == p.current })
	if i < 0 {
		return "", nil
	}
	e := p.c.Edges[i]
	if len(e.To) > 0 {
		return e.To[0], nil
	}
	scope := merge(template.Scope{"nodes": p.nodes()}, p.answerScope())
	for j, choice := range e.Choose {
		test, err := template.CompileCondition(choice.When)
		var holds bool
		if err == nil {
			holds, err = test.Eval(scope)
		}
		if err != nil {
			return "", fmt.Errorf("/pattern/config/edges/%d/choose/%d/when: %w", i, j, err)
		}
		if holds {
			return choice.To, nil
		}
	}
	return "", nil
}

// ran lists the nodes that have run, each once, in the order of their first time.
func (p *graph) ran() []string {
	var ids []string
	for _, id := range p.path {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (p *graph) nodes() *template.Dict {
	all := &template.Dict{}
	for _, n := range p.c.Nodes {
		all.Set(n.Name, p.shown[n.Name])
	}
	return all
}

func (p *graph) inside() template.Scope {
	return merge(template.Scope{"nodes": p.nodes(), "hitl_response": template.None{}}, p.answerScope())
}

func (p *graph) state() spec.Map[any] {
	results, counts := spec.Map[any]{}, spec.Map[any]{}
	for _, n := range p.c.Nodes {
		results = append(results, spec.Entry[any]{Name: n.Name, Value: p.results[n.Name]})
		if visits := p.visits[n.Name]; visits > 0 {
			counts = append(counts, spec.Entry[any]{Name: n.Name, Value: visits})
		}
	}
	state := spec.Map[any]{
		{Name: "current_node", Value: p.current}, {Name: "node_results", Value: results}, {Name: "iteration_counts", Value: counts},
		{Name: "total_steps", Value: p.steps}, {Name: "execution_path", Value: p.path},
	}
	if p.paused != nil {
		state = state.With("cumulative_tokens", *p.paused)
	}
	return p.withQuestion(state)
}

func (p *graph) scope() template.Scope {
	counts := &template.Dict{}
	for _, n := range p.c.Nodes {
		if visits := p.visits[n.Name]; visits > 0 {
			counts.Set(n.Name, template.Int(visits))
		}
	}
	return template.Scope{
		"nodes": p.nodes(), "terminal_node": template.Str(p.current), "total_steps": template.Int(p.steps), "iteration_counts": counts,
	}
}
