package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
)

// pattern checks what the parts of a pattern say of each other.
func (c *checker) pattern() {
	p := c.spec.Pattern
	for _, step := range p.steps() {
		if step.Ask == nil {
			c.agent(step.pointer+"/agent", step.Agent)
		}
		for i, name := range step.ToolOverrides {
			if !c.spec.Tools.Has(name) {
				c.add(document.Pointer(step.pointer+"/tool_overrides", i), "add it under tools", "the tool %q is not under tools", name)
			}
		}
	}
	switch {
	case p.misfit != nil:
		c.misfit(p)
	case p.Workflow != nil:
		c.workflow(p.Workflow)
	case p.Routing != nil:
		for _, route := range p.Routing.Routes {
			if len(route.Value.Then) == 0 {
				c.add(document.Pointer(configPointer+"/routes", route.Name), "give it steps under then, or leave the route out", "the route %q has no steps", route.Name)
			}
		}
	case p.Parallel != nil:
		c.unique("branch", configPointer+"/branches", len(p.Parallel.Branches), func(i int) string { return p.Parallel.Branches[i].ID })
	case p.Evaluator != nil:
		c.agent(configPointer+"/producer", p.Evaluator.Producer)
	case p.Orchestrator != nil:
		if rounds := valueOr(p.Orchestrator.Planner.Limits.MaxRounds, 1); rounds != 1 {
			c.add(configPointer+"/orchestrator/limits/max_rounds", "write 1, or leave it out", "%d rounds are asked for, and there is one plan and one round", rounds)
		}
	case p.Graph != nil:
		c.graph(p.Graph)
	}
}

// unique reports ids that are there twice.
func (c *checker) unique(what, pointer string, n int, id func(int) string) {
	seen := map[string]bool{}
	for i := range n {
		if seen[id(i)] {
			c.add(document.Pointer(pointer, i)+"/id", "give it an id of its own", "the %s id %q is there twice", what, id(i))
		}
		seen[id(i)] = true
	}
}

func (c *checker) misfit(p Pattern) {
	if len(p.misfit.config) == 0 {
		c.add(configPointer, "write "+strings.Join(p.misfit.missing, ", ")+" under config", "the config is empty")
		return
	}
	for _, name := range p.misfit.missing {
		c.add(configPointer, "write "+name+" under config", "the config has no %s, which the pattern %s needs", name, p.Type)
	}
	for _, f := range p.misfit.foreign {
		c.add(document.Pointer(configPointer, f.Name), fmt.Sprintf("leave it out, or write type: %s", f.Value),
			"the pattern %s has no %s; %s has", p.Type, f.Name, f.Value)
	}
}

// agent reports a name that is no agent's.
func (c *checker) agent(p, name string) {
	if c.spec.Agents.Has(name) {
		return
	}
	names := c.spec.Agents.Names()
	c.add(p, suggestion(name, names, "add it under agents, or use one of "+strings.Join(names, ", ")), "there is no agent %q", name)
}

func (c *checker) workflow(cfg *Workflow) {
	ids := cfg.ids()
	c.unique("task", configPointer+"/tasks", len(ids), func(i int) string { return ids[i] })
	before := len(c.issues)
	for i, t := range cfg.Tasks {
		for j, dep := range t.Deps {
			if !slices.Contains(ids, dep) {
				c.add(document.Pointer(configPointer, "tasks", i, "deps", j), suggestion(dep, ids, "add the task, or leave it out of deps"), "there is no task %q", dep)
			}
		}
	}
	if len(c.issues) > before {
		return // what hangs on nothing would look like a cycle
	}
	if _, cycle := cfg.layers(); cycle != nil {
		c.add(configPointer+"/tasks", "leave out one of these dependencies", "these tasks wait for each other: %s", strings.Join(cycle, " → "))
	}
}

func (c *checker) graph(cfg *Graph) {
	reached := map[string]bool{}
	leads := map[string][]string{}
	for i, e := range cfg.Edges {
		at := document.Pointer(configPointer+"/edges", i)
		c.node(at+"/from", e.From, cfg)
		if len(e.To) > 1 {
			c.add(at+"/to", "keep one, or use choose with conditions", "the edge from %q has %d targets, and a run is in one node at a time", e.From, len(e.To))
		}
		for j, to := range e.To {
			c.node(document.Pointer(at+"/to", j), to, cfg)
			leads[e.From] = append(leads[e.From], to)
		}
		for j, choice := range e.Choose {
			c.node(document.Pointer(at+"/choose", j)+"/to", choice.To, cfg)
			leads[e.From] = append(leads[e.From], choice.To)
		}
	}
	queue, ends := []string{cfg.Nodes[0].Name}, false
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if !reached[name] {
			reached[name] = true
			queue = append(queue, leads[name]...)
		}
	}
	for _, n := range cfg.Nodes {
		ends = ends || len(leads[n.Name]) == 0
		if !reached[n.Name] {
			c.add(document.Pointer(configPointer+"/nodes", n.Name), "add an edge that leads to it, or leave it out", "the node %q is not reached from the first, %q", n.Name, cfg.Nodes[0].Name)
		}
	}
	if !ends {
		c.add(configPointer+"/edges", "leave one node without edges: the run ends there", "every node leads to another, so the run has no end")
	}
}

func (c *checker) node(p, name string, cfg *Graph) {
	if !cfg.Nodes.Has(name) {
		names := cfg.Nodes.Names()
		c.add(p, suggestion(name, names, "add it under nodes, or use one of "+strings.Join(names, ", ")), "there is no node %q", name)
	}
}
