package spec

import "github.com/holdfast-dev/holdfast/internal/document"

const configPointer = "/pattern/config"

// stepAt is a call of an agent or a question to a person and where it stands.
type stepAt struct {
	pointer string
	Step
}

// steps lists every place at which a pattern calls an agent or asks a person,
// whatever the place is called. An evaluator's producer has none: it is named
// by its agent alone.
func (p Pattern) steps() (all []stepAt) {
	add := func(key string, s Step) { all = append(all, stepAt{configPointer + key, s}) }
	list := func(key string, steps []Step) {
		for i, s := range steps {
			add(document.Pointer(key, i), s)
		}
	}
	optional := func(key string, s *Step) {
		if s != nil {
			add(key, *s)
		}
	}
	question := func(key string, a *Ask) {
		if a != nil {
			add(key, Step{Ask: a})
		}
	}
	switch {
	case p.Chain != nil:
		list("/steps", p.Chain.Steps)
	case p.Workflow != nil:
		for i, t := range p.Workflow.Tasks {
			add(document.Pointer("/tasks", i), Step{Agent: t.Agent, Input: t.Input, Ask: t.Ask})
		}
	case p.Routing != nil:
		add("/router", Step{Agent: p.Routing.Router.Agent, Input: p.Routing.Router.Input})
		question("/router/review_router", p.Routing.Router.Review)
		for _, route := range p.Routing.Routes {
			list(document.Pointer("/routes", route.Name, "then"), route.Value.Then)
		}
	case p.Parallel != nil:
		if each := p.Parallel.ForEach; each != nil {
			list("/for_each/steps", each.Steps)
		} else {
			for i, b := range p.Parallel.Branches {
				list(document.Pointer("/branches", i, "steps"), b.Steps)
			}
		}
		optional("/reduce", p.Parallel.Reduce)
	case p.Evaluator != nil:
		add("/evaluator", Step{Agent: p.Evaluator.Judge.Agent, Input: valueOr(p.Evaluator.Judge.Input, "")})
		question("/review_gate", p.Evaluator.Gate)
	case p.Orchestrator != nil:
		add("/orchestrator", Step{Agent: p.Orchestrator.Planner.Agent})
		add("/worker_template", Step{Agent: p.Orchestrator.Worker.Agent})
		question("/decomposition_review", p.Orchestrator.DecompositionReview)
		question("/reduce_review", p.Orchestrator.ReduceReview)
		optional("/reduce", p.Orchestrator.Reduce)
		optional("/writeup", p.Orchestrator.Writeup)
	case p.Graph != nil:
		for _, n := range p.Graph.Nodes {
			add(document.Pointer("/nodes", n.Name), Step{Agent: n.Value.Agent, Input: valueOr(n.Value.Input, ""), Ask: n.Value.Ask})
		}
	}
	return all
}
